package io.oncelog.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import javax.security.auth.login.AppConfigurationEntry;
import javax.security.auth.login.AppConfigurationEntry.LoginModuleControlFlag;
import javax.security.auth.login.Configuration;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.security.JaasContext;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class JvmLoginTest {
  private static final String MODULE = ClientSettings.ORIGINAL + "common.security.scram.ScramLoginModule";

  @AfterEach
  void forget() {
    Configuration.setConfiguration(null);
  }

  private static AppConfigurationEntry entry(Map<String, String> options) {
    return new AppConfigurationEntry(MODULE, LoginModuleControlFlag.REQUIRED, options);
  }

  private static void login(AppConfigurationEntry... entries) {
    Configuration.setConfiguration(
        new Configuration() {
          @Override
          public AppConfigurationEntry[] getAppConfigurationEntry(String name) {
            return name.equals("KafkaClient") ? entries : null;
          }
        });
  }

  @Test
  void aLoginOfTheJvmIsParsedByKafkaToTheSameModuleUnderItsNameInThisJar() {
    Map<String, String> options = Map.of("username", "bob", "password", "a \"b\\c'd;\ne", "x.y", "${z:1}");
    login(entry(options));

    Map<String, Object> settings = new HashMap<>();
    settings.put("sasl.jaas.config", new Password(JvmLogin.setting().orElseThrow()));
    List<AppConfigurationEntry> found = JaasContext.loadClientContext(settings).configurationEntries();

    assertEquals(1, found.size());
    assertEquals(ClientSettings.relocated(MODULE), found.get(0).getLoginModuleName());
    assertEquals(LoginModuleControlFlag.REQUIRED, found.get(0).getControlFlag());
    assertEquals(options, found.get(0).getOptions());
  }

  @Test
  void withoutALoginForKafkaThereIsNoSetting() {
    login((AppConfigurationEntry[]) null);
    assertEquals(Optional.empty(), JvmLogin.setting());

    login(entry(Map.of()), entry(Map.of()));
    assertEquals(Optional.empty(), JvmLogin.setting());
  }
}
