package io.oncelog.kafka.sink;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Function;

/**
 * Where a task's records are: the first and the last offset in each partition that it wrote to. Needs no memory per
 * record.
 */
final class OffsetRanges {
  private static final long NOTHING = -1;

  /**
   * The offsets in one topic. The driver reads it as JSON, with the names of the components.
   *
   * @param topicId a topic that is deleted and created again has another one
   * @param partitions for each: its number, its first offset and its last offset
   */
  public record Topic(String topic, String topicId, List<long[]> partitions) implements java.io.Serializable {}

  private final Function<String, String> ids;
  private final Map<String, Offsets> topics = new TreeMap<>();
  private String lastTopic; // that of the last record, because most tasks write to one topic
  private Offsets last;

  /**
   * @param ids finds the id of a topic that was just written to
   */
  OffsetRanges(Function<String, String> ids) {
    this.ids = ids;
  }

  /** Adds an acknowledged record. */
  void add(String topic, int partition, long offset) {
    if (!topic.equals(lastTopic)) {
      lastTopic = topic;
      last = topics.computeIfAbsent(topic, name -> new Offsets(ids.apply(name)));
    }
    last.add(partition, offset);
  }

  List<Topic> topics() {
    List<Topic> found = new ArrayList<>();
    topics.forEach((topic, offsets) -> found.add(new Topic(topic, offsets.id, offsets.partitions())));
    return found;
  }

  private static final class Offsets {
    private final String id;
    private long[] firsts = {};
    private long[] lasts = {};

    Offsets(String id) {
      this.id = id;
    }

    void add(int partition, long offset) {
      if (partition >= firsts.length) {
        int before = firsts.length;
        int size = Math.max(2 * before, partition + 1);
        firsts = Arrays.copyOf(firsts, size);
        lasts = Arrays.copyOf(lasts, size);
        Arrays.fill(firsts, before, size, NOTHING);
      }
      if (firsts[partition] == NOTHING) {
        firsts[partition] = offset;
        lasts[partition] = offset;
      }
      firsts[partition] = Math.min(firsts[partition], offset);
      lasts[partition] = Math.max(lasts[partition], offset);
    }

    List<long[]> partitions() {
      List<long[]> found = new ArrayList<>();
      for (int number = 0; number < firsts.length; number++) {
        if (firsts[number] != NOTHING) {
          found.add(new long[] {number, firsts[number], lasts[number]});
        }
      }
      return found;
    }
  }
}
