package io.oncelog.kafka.source;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.zip.CRC32;
import org.apache.kafka.common.TopicPartition;

/** How much of what is there goes into one micro-batch. Pure. */
final class Admission {
  private Admission() {}

  /** How many offsets lie between the two. */
  static long backlog(Map<TopicPartition, Long> from, Map<TopicPartition, Long> to) {
    return to.entrySet().stream().mapToLong(entry -> sizeOf(entry.getKey(), from, to)).sum();
  }

  /**
   * Ends that take at most {@code most} offsets, each partition by its share of the backlog.
   *
   * <p>Shares are rounded down. What that leaves over goes offset by offset to the partitions with the smallest shares:
   * hence the batch has exactly {@code most} offsets if there are as many, and a partition with little is not starved
   * by one with much. Where there is not one for each, another partition is first in each batch.
   */
  static Map<TopicPartition, Long> limit(long most, Map<TopicPartition, Long> from, Map<TopicPartition, Long> to) {
    long backlog = backlog(from, to);
    if (backlog <= most) {
      return to;
    }
    List<TopicPartition> waiting = new ArrayList<>(to.keySet());
    waiting.removeIf(partition -> sizeOf(partition, from, to) == 0);
    Map<TopicPartition, Long> shares = new HashMap<>();
    for (TopicPartition partition : waiting) {
      long size = sizeOf(partition, from, to);
      shares.put(partition, Math.min(size, (long) ((double) size / backlog * most)));
    }
    handOut(most - shares.values().stream().mapToLong(Long::longValue).sum(), waiting, shares, from, to);
    Map<TopicPartition, Long> ends = new HashMap<>(to);
    shares.forEach((partition, share) -> ends.put(partition, from.get(partition) + share));
    return ends;
  }

  private static void handOut(
      long left,
      List<TopicPartition> waiting,
      Map<TopicPartition, Long> shares,
      Map<TopicPartition, Long> from,
      Map<TopicPartition, Long> to) {
    waiting.sort(PartitionOrder.BY_NAME);
    Collections.rotate(waiting, turn(from, waiting.size()));
    waiting.sort(Comparator.comparingLong(shares::get));
    while (left > 0) {
      for (TopicPartition partition : waiting) {
        if (left > 0 && shares.get(partition) < sizeOf(partition, from, to)) {
          shares.merge(partition, 1L, Long::sum);
          left--;
        }
      }
    }
  }

  /** A number below {@code count} that is another one, as likely as not, whenever the offsets changed. */
  private static int turn(Map<TopicPartition, Long> offsets, int count) {
    CRC32 mixed = new CRC32();
    mixed.update(new KafkaOffset(offsets).json().getBytes(StandardCharsets.UTF_8));
    return (int) (mixed.getValue() % count);
  }

  private static long sizeOf(TopicPartition partition, Map<TopicPartition, Long> from, Map<TopicPartition, Long> to) {
    return Math.max(0, to.get(partition) - from.getOrDefault(partition, to.get(partition)));
  }
}
