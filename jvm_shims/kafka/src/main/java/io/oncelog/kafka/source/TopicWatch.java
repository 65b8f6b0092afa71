package io.oncelog.kafka.source;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import org.apache.kafka.common.TopicPartition;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Checks whether the topics are still those that the query began with. After a topic was deleted and created again, its
 * offsets mean other records.
 *
 * <p>The checkpoint keeps the first id of each topic. Offsets of a later topic with that name contain its id, so every
 * offset says which topic it belongs to.
 */
final class TopicWatch {
  private static final Logger LOG = LoggerFactory.getLogger(TopicWatch.class);

  private static final String NOT_SELECTED =
      "the checkpoint is of a query that reads a topic which the options no longer select; select it again, or start "
          + "with a new checkpoint";

  private final SourceOptions options;
  private final Checkpoint checkpoint;
  private final Predicate<String> exists;
  private final Set<String> toldIds = new HashSet<>(); // new ids that a warning was logged for
  private SortedMap<String, String> firstIds; // null before the first look
  private SortedMap<String, Cluster.Topic> topics = new TreeMap<>();

  /**
   * @param exists whether the cluster has a topic that the options do not select
   */
  TopicWatch(SourceOptions options, Checkpoint checkpoint, Predicate<String> exists) {
    this.options = options;
    this.checkpoint = checkpoint;
    this.exists = exists;
  }

  /** The topics that existed at the last look. */
  SortedMap<String, Cluster.Topic> topics() {
    return topics;
  }

  /**
   * Takes {@code found} as the existing topics, and remembers new ones.
   *
   * @param expected the partitions that existed at the query's last look
   * @param known the partitions that the query has offsets of: the expected ones, and absent ones
   * @throws DataLossException an expected partition is gone, and failOnDataLoss is on
   */
  void look(SortedMap<String, Cluster.Topic> found, Set<TopicPartition> expected, Set<TopicPartition> known) {
    if (firstIds == null) {
      firstIds = checkpoint.topicIds();
    }
    checkThere(found, expected);
    checkNamed(options.subscription, found, known);
    SortedMap<String, String> newIds = new TreeMap<>();
    found.values().forEach(topic -> newIds.put(topic.name(), topic.id()));
    newIds.keySet().removeAll(firstIds.keySet());
    if (!newIds.isEmpty()) {
      checkpoint.addTopicIds(newIds);
      firstIds.putAll(newIds);
    }
    topics = found;
  }

  /**
   * Checks that {@code offset} belongs to the existing topics.
   *
   * @throws DataLossException a topic was created again since, and failOnDataLoss is on
   */
  void checkSame(KafkaOffset offset) {
    Set<String> names = new TreeSet<>();
    offset.partitions().keySet().forEach(partition -> names.add(partition.topic()));
    for (String name : names) {
      if (isRecreated(name, offset) && (options.failOnDataLoss || toldIds.add(topics.get(name).id()))) {
        report(
            "a topic was deleted and created again: the query's offsets belong to the old one",
            "topic", name, "id", topics.get(name).id(), "id before", idIn(offset, name));
      }
    }
  }

  /** How far {@code offset} has read, without topics that were created again since. */
  Map<TopicPartition, Long> ends(KafkaOffset offset) {
    return ofSameTopics(offset.partitions(), offset);
  }

  /** Where a query that is at {@code offset} continues, including partitions that were absent then. */
  Map<TopicPartition, Long> starts(KafkaOffset offset) {
    return ofSameTopics(offset.positions(), offset);
  }

  private Map<TopicPartition, Long> ofSameTopics(Map<TopicPartition, Long> offsets, KafkaOffset offset) {
    Map<TopicPartition, Long> same = new HashMap<>(offsets);
    same.keySet().removeIf(partition -> isRecreated(partition.topic(), offset));
    return same;
  }

  /**
   * An offset for the existing topics.
   *
   * @param before where the query was; its positions in other partitions are kept until those are seen again
   */
  KafkaOffset offset(Map<TopicPartition, Long> partitions, KafkaOffset before) {
    Map<TopicPartition, Long> absent = starts(before);
    absent.keySet().removeAll(partitions.keySet());
    Map<String, String> laterIds = new HashMap<>(before.topicIds());
    laterIds.keySet().retainAll(absent.keySet().stream().map(TopicPartition::topic).collect(Collectors.toSet()));
    for (Cluster.Topic topic : topics.values()) {
      if (!topic.id().equals(firstIds.get(topic.name()))) {
        laterIds.put(topic.name(), topic.id());
      }
    }
    return new KafkaOffset(partitions, absent, laterIds);
  }

  private boolean isRecreated(String name, KafkaOffset offset) {
    Cluster.Topic topic = topics.get(name);
    return topic != null && !topic.id().equals(idIn(offset, name));
  }

  private String idIn(KafkaOffset offset, String name) {
    return offset.topicIds().getOrDefault(name, firstIds.get(name));
  }

  private void checkThere(SortedMap<String, Cluster.Topic> found, Set<TopicPartition> expected) {
    for (TopicPartition partition : expected) {
      Cluster.Topic topic = found.get(partition.topic());
      if (topic == null && exists.test(partition.topic())) {
        report(NOT_SELECTED, "topic", partition.topic());
      } else if (topic == null) {
        report("a topic of the query is gone, or this user may not see it any more", "topic", partition.topic());
      } else if (options.subscription instanceof Subscription.Assigned assigned
          && !assigned.partitions().contains(partition)) {
        report(NOT_SELECTED, "topic", partition.topic(), "partition", partition.partition());
      } else if (partition.partition() >= topic.partitions()) {
        report("a partition of the query is gone", "topic", partition.topic(), "partition", partition.partition());
      }
    }
  }

  /** Refuses a subscription that names a topic or partition that does not exist. */
  static void checkNamed(Subscription subscription, SortedMap<String, Cluster.Topic> topics) {
    checkNamed(subscription, topics, Set.of());
  }

  /** The same, except for {@code known} partitions: those existed before, so their absence is data loss. */
  private static void checkNamed(
      Subscription subscription, SortedMap<String, Cluster.Topic> topics, Set<TopicPartition> known) {
    if (subscription instanceof Subscription.Topics subscribed) {
      for (String name : subscribed.names()) {
        if (!topics.containsKey(name) && known.stream().noneMatch(partition -> partition.topic().equals(name))) {
          throw missingTopic(name);
        }
      }
    } else if (subscription instanceof Subscription.Assigned assigned) {
      for (TopicPartition partition : assigned.partitions()) {
        Cluster.Topic topic = topics.get(partition.topic());
        if (topic == null && !known.contains(partition)) {
          throw missingTopic(partition.topic());
        } else if (topic != null && partition.partition() >= topic.partitions() && !known.contains(partition)) {
          throw Problems.option(
              "a partition to read does not exist",
              "partition", partition, "partitions of the topic", topic.partitions());
        }
      }
    }
  }

  private static IllegalArgumentException missingTopic(String name) {
    return Problems.option("a topic to read does not exist, or this user may not see it", "topic", name);
  }

  private void report(String text, Object... fields) {
    if (options.failOnDataLoss) {
      throw new DataLossException(text, fields);
    }
    LOG.warn("{}; failOnDataLoss is false: continuing", Problems.message(text, fields));
  }
}
