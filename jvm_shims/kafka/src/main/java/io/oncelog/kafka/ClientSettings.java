package io.oncelog.kafka;

import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.CommonClientConfigs;

/** Settings of Kafka's clients as users give them: options that begin with {@code kafka.}. */
public final class ClientSettings {
  public static final String PREFIX = "kafka.";

  /** Joined at run time, because the build would rewrite this text in a literal to the relocated name. */
  static final String ORIGINAL = String.join(".", "org", "apache", "kafka") + ".";

  /** Where the build moved Kafka's classes; the same as {@code ORIGINAL} if it did not. */
  static final String RELOCATED =
      CommonClientConfigs.class.getName().replaceAll("clients\\.CommonClientConfigs$", "");

  private ClientSettings() {}

  /** The client's settings among {@code options}: without the prefix, and in lower case as in Kafka. */
  public static Map<String, String> of(Map<String, String> options) {
    Map<String, String> settings = new TreeMap<>();
    options.forEach(
        (key, value) -> {
          String name = key.toLowerCase(java.util.Locale.ROOT);
          if (name.startsWith(PREFIX)) {
            settings.put(name.substring(PREFIX.length()), relocated(value));
          }
        });
    return settings;
  }

  /**
   * A setting's value, with the names of Kafka's own classes, such as a login module in {@code sasl.jaas.config},
   * replaced by their names in this jar. The names that some guides give for other shaded clients are replaced too.
   */
  public static String relocated(String value) {
    return value.replace("kafkashaded." + ORIGINAL, ORIGINAL).replace(ORIGINAL, RELOCATED);
  }
}
