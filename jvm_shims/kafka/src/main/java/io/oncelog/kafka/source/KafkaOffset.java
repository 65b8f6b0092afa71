package io.oncelog.kafka.source;

import java.util.Collections;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.connector.read.streaming.Offset;

/**
 * How far a stream is: for each partition the offset that is read next.
 *
 * <p>Its JSON is that of Spark's own source, until a topic of the query is deleted and created again. From then on the
 * offset names the new topic's id too: by it a batch that begins in one topic and ends in the next is told from one
 * within a topic, also when it is planned again after a crash. A partition that the query does not see keeps its
 * offset apart from the others: nothing is read of it, and it goes on there when it is seen again.
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
   * @param absent partitions that the query read and does not see now; none of {@code partitions} is among them
   * @param topicIds of the topics that are not those which the query read first under their names
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

  /** Any offset of this source: after a restart Spark hands out its own class with the same JSON. */
  static KafkaOffset of(Offset offset) {
    return offset instanceof KafkaOffset known ? known : Json.parseOffset(offset.json());
  }

  SortedMap<TopicPartition, Long> partitions() {
    return partitions;
  }

  SortedMap<TopicPartition, Long> absent() {
    return absent;
  }

  /** Where the query goes on, in absent partitions too. */
  SortedMap<TopicPartition, Long> positions() {
    SortedMap<TopicPartition, Long> positions = sorted(partitions);
    positions.putAll(absent);
    return positions;
  }

  /** The ids that it names, by topic; of other topics it means the first one that the query read. */
  SortedMap<String, String> topicIds() {
    return topicIds;
  }

  @Override
  public String json() {
    return Json.format(this);
  }
}
