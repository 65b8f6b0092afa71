package io.oncelog.kafka.source;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Finds the topics in which sinks of oncelog keep their ledgers. A pattern leaves them out, as it leaves out Kafka's
 * internal topics: otherwise a query that copies all topics would copy what its own sink notes about it, for ever.
 *
 * <p>A topic keeps a ledger if it has the default name or the name that the option {@code ledgerTopic} gives; or if it
 * has one partition, in which the brokers set the timestamps, and a ledger's entry is among its first records. Such a
 * topic that never had a record may be about to become a ledger, and is left out until it has one. A topic whose
 * settings this user may not see counts as data.
 */
final class LedgerTopics {
  private static final Logger LOG = LoggerFactory.getLogger(LedgerTopics.class);
  private static final String DEFAULT_NAME = Option.LEDGER_TOPIC.defaultText(true).orElseThrow();
  private static final byte[] BEGINNING = "{\"version\":".getBytes(StandardCharsets.US_ASCII);
  private static final int BEGINNING_AT = 4; // after the length; see command.py

  private final SourceOptions options;
  private final Map<String, Boolean> known = new HashMap<>(); // by topic id

  LedgerTopics(SourceOptions options) {
    this.options = options;
  }

  /** The names of those among {@code topics} that keep ledgers. */
  Set<String> among(Map<String, Cluster.Topic> topics, Admin admin) throws Exception {
    Set<String> found = new TreeSet<>();
    List<Cluster.Topic> candidates = new ArrayList<>();
    for (Cluster.Topic topic : topics.values()) {
      if (topic.name().equals(DEFAULT_NAME) || options.ledgerTopic.filter(topic.name()::equals).isPresent()) {
        found.add(topic.name());
      } else if (topic.partitions() == 1 && known.getOrDefault(topic.id(), true)) {
        candidates.add(topic);
      }
    }
    for (Cluster.Topic topic : withTimesOfBrokers(candidates, admin)) {
      if (known.containsKey(topic.id()) || isOrMayBecomeLedger(topic)) {
        found.add(topic.name());
      }
    }
    return found;
  }

  private List<Cluster.Topic> withTimesOfBrokers(List<Cluster.Topic> topics, Admin admin) throws Exception {
    SortedMap<String, Cluster.Topic> asked = new TreeMap<>();
    List<Cluster.Topic> found = new ArrayList<>();
    for (Cluster.Topic topic : topics) {
      if (known.containsKey(topic.id())) {
        found.add(topic);
      } else {
        asked.put(topic.name(), topic);
      }
    }
    if (asked.isEmpty()) {
      return found;
    }
    List<ConfigResource> resources =
        asked.keySet().stream().map(name -> new ConfigResource(ConfigResource.Type.TOPIC, name)).toList();
    for (Map.Entry<ConfigResource, KafkaFuture<Config>> one : admin.describeConfigs(resources).values().entrySet()) {
      Cluster.Topic topic = asked.get(one.getKey().name());
      if ("LogAppendTime".equals(timestampType(one.getValue()))) {
        found.add(topic);
      } else {
        known.put(topic.id(), false);
      }
    }
    return found;
  }

  /** Who sets a topic's timestamps; null if this user may not know. */
  private static String timestampType(KafkaFuture<Config> answer) throws Exception {
    try {
      return answer.get().get("message.timestamp.type").value();
    } catch (ExecutionException problem) {
      if (problem.getCause() instanceof AuthorizationException
          || problem.getCause() instanceof UnknownTopicOrPartitionException) {
        return null;
      }
      throw problem;
    }
  }

  private boolean isOrMayBecomeLedger(Cluster.Topic topic) {
    SortedMap<String, String> settings = new TreeMap<>(options.clientSettings);
    settings.put(ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_uncommitted"); // others may have left something open
    try (PolledPartition partition = new PolledPartition(settings, new TopicPartition(topic.name(), 0))) {
      long begin = partition.bounds()[0];
      long end = partition.bounds()[1];
      if (end == 0) {
        return true;
      }
      partition.seek(begin);
      boolean isLedger = Arrays.stream(firstRecords(partition, end)).anyMatch(record -> isEntry(record.value()));
      known.put(topic.id(), isLedger);
      if (isLedger) {
        LOG.info("the pattern leaves out the topic {}: sinks keep their ledger in it", topic.name());
      }
      return isLedger;
    } catch (AuthorizationException problem) {
      return false;
    }
  }

  private ConsumerRecord<byte[], byte[]>[] firstRecords(PolledPartition partition, long end) {
    ConsumerRecord<byte[], byte[]>[] records = PolledPartition.NONE;
    while (records.length == 0 && partition.position() < end) {
      long before = partition.position();
      records = partition.poll(end, Duration.ofMillis(options.pollTimeoutMs));
      if (records.length == 0 && partition.position() == before) {
        throw new TimeoutException("a topic that may keep a ledger cannot be read");
      }
    }
    return records;
  }

  static boolean isEntry(byte[] value) {
    int end = BEGINNING_AT + BEGINNING.length;
    return value != null
        && value.length >= end
        && Arrays.equals(value, BEGINNING_AT, end, BEGINNING, 0, BEGINNING.length);
  }
}
