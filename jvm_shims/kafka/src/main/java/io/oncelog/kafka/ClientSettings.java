package io.oncelog.kafka;

import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.CommonClientConfigs;

/** Settings of Kafka's clients as users give them: options that begin with {@code kafka.}. */
public final class ClientSettings {
  public static final String PREFIX = "kafka.";

  /** Put together at run time: the build rewrites a literal of this text to the relocated name. */
  static final String ORIGINAL = String.join(".", "org", "apache", "kafka") + ".";

  /** Where the build moved Kafka's classes; the same as above where it did not. */
  static final String RELOCATED =
      CommonClientConfigs.class.getName().replaceAll("clients\\.CommonClientConfigs$", "");

  private ClientSettings() {}

  /** The client's settings among {@code options}, without the prefix, in lower case as Kafka's are. */
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
   * A setting's value with the names of Kafka's own classes, such as a login module in {@code sasl.jaas.config}, as
   * they are in this jar. A name that some guides give for other shaded clients means the same class.
   */
  public static String relocated(String value) {
    return value.replace("kafkashaded." + ORIGINAL, ORIGINAL).replace(ORIGINAL, RELOCATED);
  }
}
