package io.oncelog.kafka.source;

import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;

/** Resolves a {@link Position} to offsets on the cluster. */
final class Positions {
  private final SourceOptions options;
  private final Cluster cluster;

  Positions(SourceOptions options, Cluster cluster) {
    this.options = options;
    this.cluster = cluster;
  }

  /** Where a new read of {@code partitions} starts. */
  Map<TopicPartition, Long> starting(Set<TopicPartition> partitions) {
    return find(options.starting, partitions, "startingOffsets", options.isLatestWithoutMatch);
  }

  /** Where a batch of {@code partitions} ends. A time after the last record means the end. */
  Map<TopicPartition, Long> ending(Set<TopicPartition> partitions) {
    return find(options.ending, partitions, "endingOffsets", true);
  }

  private Map<TopicPartition, Long> find(
      Position position, Set<TopicPartition> partitions, String option, boolean isLatestWithoutMatch) {
    if (position instanceof Position.Earliest) {
      return cluster.earliest(partitions);
    } else if (position instanceof Position.Latest) {
      return cluster.latest(partitions);
    } else if (position instanceof Position.Group) {
      return ofGroup(partitions);
    } else if (position instanceof Position.AtOffsets explicit) {
      checkNamesAll(explicit.offsets().keySet(), partitions, option);
      return withoutStandIns(explicit.offsets());
    } else if (position instanceof Position.AtTimestamps explicit) {
      checkNamesAll(explicit.timestampsMs().keySet(), partitions, option + "ByTimestamp");
      return atTimes(explicit.timestampsMs(), isLatestWithoutMatch);
    }
    Map<TopicPartition, Long> times = new HashMap<>();
    partitions.forEach(partition -> times.put(partition, ((Position.AtTimestamp) position).timestampMs()));
    return atTimes(times, isLatestWithoutMatch);
  }

  private Map<TopicPartition, Long> ofGroup(Set<TopicPartition> partitions) {
    Map<TopicPartition, Long> found = new HashMap<>();
    cluster
        .committedStable(options.groupId.orElseThrow(), partitions)
        .forEach(
            (partition, committed) -> {
              if (committed != null) {
                found.put(partition, committed.offset());
              }
            });
    Set<TopicPartition> others = new HashSet<>(partitions);
    others.removeAll(found.keySet());
    found.putAll(cluster.earliest(others));
    return found;
  }

  private Map<TopicPartition, Long> withoutStandIns(Map<TopicPartition, Long> offsets) {
    Map<TopicPartition, Long> found = new HashMap<>(offsets);
    found.putAll(cluster.earliest(withOffset(offsets, Position.EARLIEST_OFFSET)));
    found.putAll(cluster.latest(withOffset(offsets, Position.LATEST_OFFSET)));
    return found;
  }

  private static Collection<TopicPartition> withOffset(Map<TopicPartition, Long> offsets, long offset) {
    return offsets.entrySet().stream().filter(entry -> entry.getValue() == offset).map(Map.Entry::getKey).toList();
  }

  private Map<TopicPartition, Long> atTimes(Map<TopicPartition, Long> timestampsMs, boolean isLatestWithoutMatch) {
    Map<TopicPartition, Long> found = new HashMap<>(cluster.atTimes(timestampsMs));
    Collection<TopicPartition> unmatched = withOffset(found, -1);
    if (!unmatched.isEmpty() && !isLatestWithoutMatch) {
      TopicPartition first = unmatched.iterator().next();
      throw Problems.option(
          "a partition has no record at or after the time; set startingOffsetsByTimestampStrategy to latest to start "
              + "at its end",
          "partition", first,
          "timestamp", timestampsMs.get(first));
    }
    found.putAll(cluster.latest(unmatched));
    return found;
  }

  private static void checkNamesAll(Set<TopicPartition> named, Set<TopicPartition> partitions, String option) {
    if (!named.equals(partitions)) {
      throw Problems.option(
          "the option must name every partition that is read, and no other; -2 stands for the earliest, -1 for the "
              + "latest offset",
          "option", option,
          "named", sorted(named),
          "read", sorted(partitions));
    }
  }

  private static Collection<TopicPartition> sorted(Set<TopicPartition> partitions) {
    return partitions.stream().sorted(PartitionOrder.BY_NAME).toList();
  }
}
