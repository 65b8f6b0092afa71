package io.oncelog.kafka;

import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.common.config.internals.BrokerSecurityConfigs;
import org.apache.kafka.common.security.oauthbearer.ClientJwtValidator;

/** Creates Kafka's clients, so that they find the users' own classes and the issuer of tokens in their settings. */
public final class Clients {
  private static final String URL = "sasl.oauthbearer.token.endpoint.url";

  private static final String VALIDATOR = "sasl.oauthbearer.jwt.validator.class";

  private static final String LOGIN = "sasl.jaas.config";

  /** Settings that may name a user's class. */
  private static final Set<String> CLASSES =
      Set.of(
          "sasl.client.callback.handler.class",
          "sasl.login.callback.handler.class",
          "sasl.login.class",
          "sasl.oauthbearer.jwt.retriever.class",
          VALIDATOR,
          "security.providers",
          "ssl.engine.factory.class");

  private static final Pattern MODULE = Pattern.compile("([\\w.$]+)\\s+(required|requisite|sufficient|optional)");

  private Clients() {}

  /** Creates a client with these settings, in which names of Kafka's classes are already those of this jar. */
  public static <T> T create(Map<String, ?> given, Function<Map<String, Object>, T> make) {
    Map<String, Object> settings = new HashMap<>(given);
    // Kafka's default validator also serves brokers, and for that needs a library that clients do not need.
    settings.putIfAbsent(VALIDATOR, ClientJwtValidator.class.getName());
    if (!settings.containsKey(LOGIN)) {
      JvmLogin.setting().ifPresent(login -> settings.put(LOGIN, login));
    }
    allowIssuer(settings);
    Thread thread = Thread.currentThread();
    ClassLoader before = thread.getContextClassLoader();
    if (!namesForeignClass(settings)) {
      return make.apply(settings);
    }
    thread.setContextClassLoader(ForeignClasses.seenFrom(before));
    try {
      return make.apply(settings); // the client's threads inherit the loader
    } finally {
      thread.setContextClassLoader(before);
    }
  }

  static boolean namesForeignClass(Map<String, ?> settings) {
    for (String name : CLASSES) {
      Object value = settings.get(name);
      if (value != null && !value.toString().startsWith(ClientSettings.RELOCATED)) {
        return true;
      }
    }
    Object login = settings.get(LOGIN);
    Matcher module = MODULE.matcher(login == null ? "" : login.toString());
    return module.find()
        && !module.group(1).startsWith(ClientSettings.RELOCATED)
        && !module.group(1).startsWith("com.sun.security.");
  }

  /**
   * Allows the issuer that the settings name. Kafka only calls issuers that a system property lists, so that whoever
   * configures a Connect cluster from outside cannot make it call any address. Whoever sets options in Spark can run
   * code there anyway.
   */
  private static synchronized void allowIssuer(Map<String, ?> settings) {
    Object url = settings.get(URL);
    if (url == null) {
      return;
    }
    String property = BrokerSecurityConfigs.ALLOWED_SASL_OAUTHBEARER_URLS_CONFIG;
    Set<String> allowed = new LinkedHashSet<>(Set.of(url.toString()));
    for (String one : System.getProperty(property, "").split(",")) {
      if (!one.isBlank()) {
        allowed.add(one.trim());
      }
    }
    System.setProperty(property, String.join(",", allowed));
  }
}
