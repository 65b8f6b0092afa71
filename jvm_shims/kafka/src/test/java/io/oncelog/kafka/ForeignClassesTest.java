package io.oncelog.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.InputStream;
import java.util.Map;
import java.util.concurrent.Callable;
import org.junit.jupiter.api.Test;

class ForeignClassesTest {
  private static final String LOGIN = "sasl.jaas.config";

  /** A class with constants of all sizes. */
  public static final class Greeting implements Callable<String> {
    @Override
    public String call() {
      return "from.me.hello " + Long.MAX_VALUE / 3 + " " + Double.MAX_VALUE + " from/me/\0é";
    }
  }

  @Test
  void aClassIsRenamedInWhatItNamesAndNowhereElse() throws Exception {
    byte[] content;
    try (InputStream file = Greeting.class.getResourceAsStream("ForeignClassesTest$Greeting.class")) {
      content = ForeignClasses.renamed(file.readAllBytes(), "from.me.", "to.somebody.else.");
    }
    ClassLoader loader =
        new ClassLoader(null) {
          @Override
          protected Class<?> findClass(String name) {
            return defineClass(name, content, 0, content.length);
          }
        };
    Object made = loader.loadClass(Greeting.class.getName()).getConstructor().newInstance();

    String expected = new Greeting().call().replace("from.me.", "to.somebody.else.");
    assertEquals(expected.replace("from/me/", "to/somebody/else/"), ((Callable<?>) made).call());
  }

  @Test
  void onlySettingsThatNameAUsersClassAreForeign() {
    String module = ClientSettings.relocated("org.apache.kafka.common.security.plain.PlainLoginModule");
    assertFalse(Clients.namesForeignClass(Map.of()));
    assertFalse(Clients.namesForeignClass(Map.of(LOGIN, module + " required username=\"a.b required\";")));
    assertFalse(Clients.namesForeignClass(Map.of(LOGIN, "com.sun.security.auth.module.Krb5LoginModule required;")));
    assertTrue(Clients.namesForeignClass(Map.of(LOGIN, "software.amazon.msk.auth.iam.IAMLoginModule required;")));
    assertTrue(Clients.namesForeignClass(Map.of("sasl.login.callback.handler.class", "com.example.Tokens")));
  }
}
