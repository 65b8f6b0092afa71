package io.oncelog.kafka.source;

import java.util.SortedMap;
import org.apache.kafka.common.TopicPartition;

/** Where a read begins or ends, as a user says it. What it means on a given cluster, {@link Positions} finds out. */
sealed interface Position {
  /** Stand-ins for an offset in JSON. */
  long LATEST_OFFSET = -1;

  long EARLIEST_OFFSET = -2;

  record Earliest() implements Position {}

  record Latest() implements Position {}

  /** What the group has committed; earliest where it has not. */
  record Group() implements Position {}

  /** An offset for each partition, or a stand-in. */
  record AtOffsets(SortedMap<TopicPartition, Long> offsets) implements Position {}

  /** The first record of each partition at or after one time. */
  record AtTimestamp(long timestampMs) implements Position {}

  /** The first record at or after a time of its own for each partition. */
  record AtTimestamps(SortedMap<TopicPartition, Long> timestampsMs) implements Position {}
}
