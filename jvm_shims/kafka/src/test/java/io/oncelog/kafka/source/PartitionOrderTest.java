package io.oncelog.kafka.source;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import java.util.stream.Stream;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;

class PartitionOrderTest {
  @Test
  void partitionsAreOrderedByTopicThenNumber() {
    List<TopicPartition> sorted =
        Stream.of(new TopicPartition("b", 0), new TopicPartition("a", 10), new TopicPartition("a", 9))
            .sorted(PartitionOrder.BY_NAME)
            .toList();

    assertEquals(
        List.of(new TopicPartition("a", 9), new TopicPartition("a", 10), new TopicPartition("b", 0)), sorted);
  }
}
