package io.oncelog.kafka.source;

import java.util.Comparator;
import org.apache.kafka.common.TopicPartition;

/** Partitions by topic, then number. */
final class PartitionOrder {
  static final Comparator<TopicPartition> BY_NAME =
      Comparator.comparing(TopicPartition::topic).thenComparingInt(TopicPartition::partition);

  private PartitionOrder() {}
}
