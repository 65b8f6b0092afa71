package io.oncelog.kafka.source;

import java.util.Collections;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.connector.read.streaming.Offset;

/** How far a stream is: for each partition the offset that is read next. Its JSON is that of Spark's own source. */
final class KafkaOffset extends Offset {
  private final SortedMap<TopicPartition, Long> partitions;

  KafkaOffset(Map<TopicPartition, Long> partitions) {
    SortedMap<TopicPartition, Long> sorted = new TreeMap<>(PartitionOrder.BY_NAME);
    sorted.putAll(partitions);
    this.partitions = Collections.unmodifiableSortedMap(sorted);
  }

  /** Any offset of this source: after a restart Spark hands out its own class with the same JSON. */
  static KafkaOffset of(Offset offset) {
    return offset instanceof KafkaOffset known ? known : parse(offset.json());
  }

  static KafkaOffset parse(String json) {
    boolean isEmpty = json.strip().equals("{}"); // a pattern that matched no topic yet
    return new KafkaOffset(isEmpty ? Map.of() : Json.parseNumbers(json, Json.OFFSETS_SHAPE));
  }

  SortedMap<TopicPartition, Long> partitions() {
    return partitions;
  }

  @Override
  public String json() {
    return Json.format(partitions);
  }
}
