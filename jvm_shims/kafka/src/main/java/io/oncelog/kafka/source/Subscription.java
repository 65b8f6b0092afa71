package io.oncelog.kafka.source;

import java.util.SortedSet;
import java.util.regex.Pattern;
import org.apache.kafka.common.TopicPartition;

/** Which partitions a query reads. */
sealed interface Subscription {
  /** All partitions of these topics. */
  record Topics(SortedSet<String> names) implements Subscription {}

  /** All partitions of all topics whose whole name matches, including topics that are created later. */
  record Matching(Pattern pattern) implements Subscription {}

  /** These partitions. */
  record Assigned(SortedSet<TopicPartition> partitions) implements Subscription {}
}
