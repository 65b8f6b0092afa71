package io.oncelog.kafka.source;

import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;

/** Resolves a read's start or its end, as the options give it, to offsets on the cluster. */
final class Positions {
  private final Position position;
  private final String option;
  private final SourceOptions options;
  private final Cluster cluster;
  private final boolean isLatestWithoutMatch;
  private final IsolationLevel level;
  private final Function<Collection<TopicPartition>, Map<TopicPartition, Long>> latest;

  private Positions(
      Position position,
      String option,
      SourceOptions options,
      Cluster cluster,
      boolean isLatestWithoutMatch,
      IsolationLevel level,
      Function<Collection<TopicPartition>, Map<TopicPartition, Long>> latest) {
    this.position = position;
    this.option = option;
    this.options = options;
    this.cluster = cluster;
    this.isLatestWithoutMatch = isLatestWithoutMatch;
    this.level = level;
    this.latest = latest;
  }

  /** Where a new read starts. A time may be that of a record in an open transaction: the read waits for it there. */
  static Positions ofStart(SourceOptions options, Cluster cluster) {
    return new Positions(
        options.starting,
        "startingOffsets",
        options,
        cluster,
        options.isLatestWithoutMatch,
        IsolationLevel.READ_UNCOMMITTED,
        cluster::latest);
  }

  /**
   * Where a batch ends. A time after the last readable record means the end.
   *
   * @param starts where it starts. If that is in an open transaction, nothing after it can be read yet, and the batch
   *     ends where it starts.
   */
  static Positions ofEnd(SourceOptions options, Cluster cluster, Map<TopicPartition, Long> starts) {
    return new Positions(
        options.ending,
        "endingOffsets",
        options,
        cluster,
        true,
        options.isolationLevel(),
        partitions -> latestFrom(starts, cluster.ends(partitions)));
  }

  private static Map<TopicPartition, Long> latestFrom(Map<TopicPartition, Long> starts, LogEnds logs) {
    for (TopicPartition partition : logs.lost(starts)) {
      throw Problems.option(
          "the read starts after its end",
          "partition", partition,
          "start", starts.get(partition),
          "end", logs.ends().get(partition));
    }
    return logs.readableFrom(starts);
  }

  /** The offset of each of {@code partitions}. */
  Map<TopicPartition, Long> find(Set<TopicPartition> partitions) {
    if (position instanceof Position.Earliest) {
      return cluster.earliest(partitions);
    } else if (position instanceof Position.Latest) {
      return latest.apply(partitions);
    } else if (position instanceof Position.Group) {
      return ofGroup(partitions);
    } else if (position instanceof Position.AtOffsets explicit) {
      checkNamesAll(explicit.offsets().keySet(), partitions, option);
      return withoutStandIns(explicit.offsets());
    } else if (position instanceof Position.AtTimestamps explicit) {
      checkNamesAll(explicit.timestampsMs().keySet(), partitions, option + "ByTimestamp");
      return atTimes(explicit.timestampsMs());
    }
    Map<TopicPartition, Long> times = new HashMap<>();
    partitions.forEach(partition -> times.put(partition, ((Position.AtTimestamp) position).timestampMs()));
    return atTimes(times);
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
    found.putAll(latest.apply(withOffset(offsets, Position.LATEST_OFFSET)));
    return found;
  }

  private static Collection<TopicPartition> withOffset(Map<TopicPartition, Long> offsets, long offset) {
    return offsets.entrySet().stream().filter(entry -> entry.getValue() == offset).map(Map.Entry::getKey).toList();
  }

  private Map<TopicPartition, Long> atTimes(Map<TopicPartition, Long> timestampsMs) {
    Map<TopicPartition, Long> found = new HashMap<>(cluster.atTimes(timestampsMs, level));
    Collection<TopicPartition> unmatched = withOffset(found, -1);
    if (!unmatched.isEmpty() && !isLatestWithoutMatch) {
      TopicPartition first = unmatched.iterator().next();
      throw Problems.option(
          "a partition has no record at or after the time; set startingOffsetsByTimestampStrategy to latest to start "
              + "at its end",
          "partition", first,
          "timestamp", timestampsMs.get(first));
    }
    found.putAll(latest.apply(unmatched));
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
