package io.oncelog.kafka.source;

import java.util.Collections;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.connector.read.streaming.Offset;

/**
 * How far a stream has read: the next offset of each partition.
 *
 * <p>Its JSON is that of Spark's own source, until a topic of the query is deleted and created again. From then on the
 * offset also contains the new topic's id. So a batch that begins in the old topic and ends in the new one can be told
 * from a batch within one topic, even if it is planned again after a crash. The offset of a partition that the query
 * does not see now is kept separately: nothing is read from it until it is seen again, and then it continues there.
 */
final class KafkaOffset extends Offset {
  static final KafkaOffset NONE = new KafkaOffset(Map.of());

  private final SortedMap<TopicPartition, Long> partitions;
  private final SortedMap<TopicPartition, Long> absent;
  private final SortedMap<String, String> topicIds;

  KafkaOffset(Map<TopicPartition, Long> partitions) {
    this(partitions, Map.of(), Map.of());
  }

  /**
   * @param absent partitions that the query has read and does not see now; disjoint from {@code partitions}
   * @param topicIds the ids of topics that were created again since the query first read a topic of that name
   */
  KafkaOffset(
      Map<TopicPartition, Long> partitions, Map<TopicPartition, Long> absent, Map<String, String> topicIds) {
    this.partitions = Collections.unmodifiableSortedMap(sorted(partitions));
    this.absent = Collections.unmodifiableSortedMap(sorted(absent));
    this.topicIds = Collections.unmodifiableSortedMap(new TreeMap<>(topicIds));
  }

  private static SortedMap<TopicPartition, Long> sorted(Map<TopicPartition, Long> offsets) {
    SortedMap<TopicPartition, Long> sorted = new TreeMap<>(PartitionOrder.BY_NAME);
    sorted.putAll(offsets);
    return sorted;
  }

  /** Converts any offset of this source; after a restart Spark passes its own class with the same JSON. */
  static KafkaOffset of(Offset offset) {
    return offset instanceof KafkaOffset known ? known : Json.parseOffset(offset.json());
  }

  SortedMap<TopicPartition, Long> partitions() {
    return partitions;
  }

  SortedMap<TopicPartition, Long> absent() {
    return absent;
  }

  /** Where the query continues, including absent partitions. */
  SortedMap<TopicPartition, Long> positions() {
    SortedMap<TopicPartition, Long> positions = sorted(partitions);
    positions.putAll(absent);
    return positions;
  }

  /** The ids in this offset, by topic; for other names it means the first topic that the query read. */
  SortedMap<String, String> topicIds() {
    return topicIds;
  }

  @Override
  public String json() {
    return Json.format(this);
  }
}
