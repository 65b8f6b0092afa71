package io.oncelog.kafka;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;
import org.apache.kafka.clients.CommonClientConfigs;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Settings of Kafka's clients as users give them: options that begin with {@code kafka.}. */
public final class ClientSettings {
  public static final String PREFIX = "kafka.";

  /** Joined at run time, because the build would rewrite this text in a literal to the relocated name. */
  static final String ORIGINAL = String.join(".", "org", "apache", "kafka") + ".";

  /** Where the build moved Kafka's classes; the same as {@code ORIGINAL} if it did not. */
  static final String RELOCATED =
      CommonClientConfigs.class.getName().replaceAll("clients\\.CommonClientConfigs$", "");

  private static final Logger LOG = LoggerFactory.getLogger(ClientSettings.class);

  private static final Set<String> KNOWN = new TreeSet<>();

  /** What settings of the classes that another setting names begin with. */
  private static final List<String> PLUGINS = List.of("config.providers.", "metrics.context.");

  private static final Set<String> WARNED = ConcurrentHashMap.newKeySet();

  static {
    KNOWN.addAll(ConsumerConfig.configNames());
    KNOWN.addAll(ProducerConfig.configNames());
    KNOWN.addAll(AdminClientConfig.configNames());
  }

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
    settings.computeIfPresent(CommonClientConfigs.BOOTSTRAP_SERVERS_CONFIG, (name, servers) -> listed(servers));
    return settings;
  }

  /** A list without the empty items, such as that after a trailing comma, which older clients of Kafka ignored. */
  private static String listed(String text) {
    return Arrays.stream(text.split(",")).map(String::strip).filter(one -> !one.isEmpty()).distinct()
        .collect(Collectors.joining(","));
  }

  /**
   * Warns of settings that no client of Kafka knows, each once, with the most similar name. They are passed on, because
   * a class of the user's may know them.
   */
  public static void warnOfUnknown(Set<String> names) {
    for (String name : names) {
      if (!KNOWN.contains(name) && PLUGINS.stream().noneMatch(name::startsWith) && WARNED.add(name)) {
        String nearest = Names.nearest(name, KNOWN);
        LOG.warn("no client of Kafka knows this option, so it may have no effect; option={}{}{}", PREFIX + name,
            nearest == null ? "" : ", did you mean=", nearest == null ? "" : PREFIX + nearest);
      }
    }
  }

  /**
   * A setting's value, with the names of Kafka's own classes, such as a login module in {@code sasl.jaas.config},
   * replaced by their names in this jar. The names that some guides give for other shaded clients are replaced too.
   */
  public static String relocated(String value) {
    return value.replace("kafkashaded." + ORIGINAL, ORIGINAL).replace(ORIGINAL, RELOCATED);
  }
}
