package io.oncelog.kafka.source;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.OptionalInt;
import java.util.OptionalLong;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.connector.read.InputPartition;

/**
 * The offsets {@code [start, end)} of one partition that one task reads.
 *
 * @param topicId of the topic when the range was planned; a topic that was created again has another id
 * @param location of the executor that should read it; null for any executor
 */
record OffsetRange(String topic, int partition, String topicId, long start, long end, String location)
    implements InputPartition {
  @Override
  public String[] preferredLocations() {
    return location == null ? new String[0] : new String[] {location};
  }

  TopicPartition topicPartition() {
    return new TopicPartition(topic, partition);
  }

  long size() {
    return end - start;
  }

  /**
   * Splits ranges, large ones into more parts, so that there are about {@code least} of them and none has more than
   * {@code most} offsets. Empty ranges are left out.
   */
  static List<OffsetRange> split(Collection<OffsetRange> ranges, OptionalInt least, OptionalLong most) {
    List<OffsetRange> full = ranges.stream().filter(range -> range.size() > 0).toList();
    long total = full.stream().mapToLong(OffsetRange::size).sum();
    boolean isEnough = least.isEmpty() || full.size() >= least.getAsInt();
    List<OffsetRange> parts = new ArrayList<>();
    for (OffsetRange range : full) {
      long byCount = isEnough ? 1 : Math.round((double) range.size() / total * least.getAsInt());
      long bySize = most.isPresent() ? -Math.floorDiv(-range.size(), most.getAsLong()) : 1;
      parts.addAll(range.cut(Math.min(range.size(), Math.max(1, Math.max(byCount, bySize)))));
    }
    return parts;
  }

  /** Parts that any executor may read; on one executor they would wait for each other. */
  private List<OffsetRange> cut(long count) {
    if (count == 1) {
      return List.of(this);
    }
    List<OffsetRange> parts = new ArrayList<>();
    long next = start;
    for (long i = 0; i < count; i++) {
      long first = next;
      next += size() / count + (i < size() % count ? 1 : 0);
      parts.add(new OffsetRange(topic, partition, topicId, first, next, null));
    }
    return parts;
  }
}
