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

/** Decides how many of the available offsets go into one micro-batch. Pure. */
final class Admission {
  private Admission() {}

  /** The number of offsets between {@code from} and {@code to}. */
  static long backlog(Map<TopicPartition, Long> from, Map<TopicPartition, Long> to) {
    return to.entrySet().stream().mapToLong(entry -> sizeOf(entry.getKey(), from, to)).sum();
  }

  /**
   * The ends of a batch of at most {@code most} offsets, in which each partition gets its share of the backlog.
   *
   * <p>Shares are rounded down. The remainder is given one by one to the partitions with the smallest shares. Hence the
   * batch has exactly {@code most} offsets if that many are available, and a partition with few is not starved by one
   * with many. If there are more partitions than offsets, each batch begins with another partition.
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

  /** A number below {@code count} that probably changes whenever the offsets change. */
  private static int turn(Map<TopicPartition, Long> offsets, int count) {
    CRC32 mixed = new CRC32();
    mixed.update(new KafkaOffset(offsets).json().getBytes(StandardCharsets.UTF_8));
    return (int) (mixed.getValue() % count);
  }

  private static long sizeOf(TopicPartition partition, Map<TopicPartition, Long> from, Map<TopicPartition, Long> to) {
    return Math.max(0, to.get(partition) - from.getOrDefault(partition, to.get(partition)));
  }
}
