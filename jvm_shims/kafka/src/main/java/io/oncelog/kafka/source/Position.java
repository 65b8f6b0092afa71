package io.oncelog.kafka.source;

import java.util.SortedMap;
import org.apache.kafka.common.TopicPartition;

/** Where a read starts or ends, as a user gives it. {@link Positions} resolves it on a cluster. */
sealed interface Position {
  /** What stands for an offset in a user's JSON. */
  long LATEST_OFFSET = -1;

  long EARLIEST_OFFSET = -2;

  record Earliest() implements Position {}

  record Latest() implements Position {}

  /** What the group has committed; earliest for partitions without a committed offset. */
  record Group() implements Position {}

  /** An offset for each partition, or one of the two numbers above. */
  record AtOffsets(SortedMap<TopicPartition, Long> offsets) implements Position {}

  /** In each partition, the first record at or after the same time. */
  record AtTimestamp(long timestampMs) implements Position {}

  /** In each partition, the first record at or after that partition's time. */
  record AtTimestamps(SortedMap<TopicPartition, Long> timestampsMs) implements Position {}
}
