package io.oncelog.kafka;

import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import javax.security.auth.login.AppConfigurationEntry;
import javax.security.auth.login.AppConfigurationEntry.LoginModuleControlFlag;
import javax.security.auth.login.Configuration;

/**
 * The login for Kafka's clients in the JVM's JAAS file ({@code -Djava.security.auth.login.config=...}), as a setting of
 * one client. Java would load the login module by the name in the file, and Kafka's modules have other names in this
 * jar; in a setting, the name can be replaced.
 */
final class JvmLogin {
  private static final String CONTEXT = "KafkaClient";

  private JvmLogin() {}

  /** The setting {@code sasl.jaas.config}; empty if there is no such login, or one of several modules. */
  static Optional<String> setting() {
    AppConfigurationEntry[] modules;
    try {
      modules = Configuration.getConfiguration().getAppConfigurationEntry(CONTEXT);
    } catch (SecurityException noFile) {
      return Optional.empty();
    }
    return modules != null && modules.length == 1 ? Optional.of(text(modules[0])) : Optional.empty();
  }

  private static String text(AppConfigurationEntry module) {
    String options =
        module.getOptions().entrySet().stream()
            .map(JvmLogin::text)
            .sorted()
            .collect(Collectors.joining(" "));
    String name = ClientSettings.relocated(module.getLoginModuleName());
    return name + " " + flag(module.getControlFlag()) + " " + options + ";";
  }

  private static String text(Map.Entry<String, ?> option) {
    String value = option.getValue().toString();
    return option.getKey() + "=\"" + value.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", "\\n") + "\"";
  }

  private static String flag(LoginModuleControlFlag flag) {
    return Map.of(
            LoginModuleControlFlag.REQUIRED, "required",
            LoginModuleControlFlag.REQUISITE, "requisite",
            LoginModuleControlFlag.SUFFICIENT, "sufficient",
            LoginModuleControlFlag.OPTIONAL, "optional")
        .get(flag);
  }
}
