package io.oncelog.kafka.source;

import java.util.Set;
import java.util.SortedMap;
import java.util.TreeSet;
import org.apache.kafka.common.TopicPartition;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Looks whether the topics are still those that the query began with. A topic that was deleted and created again has
 * offsets that mean other records.
 */
final class TopicWatch {
  private static final Logger LOG = LoggerFactory.getLogger(TopicWatch.class);

  private final SourceOptions options;
  private final Checkpoint checkpoint;
  private SortedMap<String, String> ids; // null until first looked at

  TopicWatch(SourceOptions options, Checkpoint checkpoint) {
    this.options = options;
    this.checkpoint = checkpoint;
  }

  /**
   * Compares the topics there are with those known so far, and remembers new ones.
   *
   * @param known the partitions that the query has offsets of
   * @return the topics that were created again since; empty under failOnDataLoss
   * @throws DataLossException a topic was deleted, or created again, and failOnDataLoss says to stop for that
   */
  Set<String> check(SortedMap<String, Cluster.Topic> topics, Set<TopicPartition> known) {
    if (ids == null) {
      ids = checkpoint.topicIds();
    }
    checkThere(topics, known);
    Set<String> recreated = new TreeSet<>();
    boolean isNew = false;
    for (Cluster.Topic topic : topics.values()) {
      String before = ids.get(topic.name());
      if (before != null && !before.equals(topic.id())) {
        report(
            "a topic was deleted and created again: the query's offsets belong to the old one",
            "topic", topic.name(), "id", topic.id(), "id before", before);
        recreated.add(topic.name());
      }
      isNew |= !topic.id().equals(ids.put(topic.name(), topic.id()));
    }
    if (isNew) {
      checkpoint.writeTopicIds(ids);
    }
    return recreated;
  }

  private void checkThere(SortedMap<String, Cluster.Topic> topics, Set<TopicPartition> known) {
    for (TopicPartition partition : known) {
      Cluster.Topic topic = topics.get(partition.topic());
      if (topic == null) {
        report("a topic of the query is gone", "topic", partition.topic());
      } else if (partition.partition() >= topic.partitions()) {
        report("a partition of the query is gone", "topic", partition.topic(), "partition", partition.partition());
      }
    }
    checkNamed(options.subscription, topics, known);
  }

  /** Refuses a subscription that names what is not there. */
  static void checkNamed(Subscription subscription, SortedMap<String, Cluster.Topic> topics) {
    checkNamed(subscription, topics, Set.of());
  }

  /** The same, but for what {@code known} names: that was there once, and its absence is loss of data. */
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
    LOG.warn("{}; failOnDataLoss is false: going on", Problems.message(text, fields));
  }
}
