package io.oncelog.kafka.sink;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class OffsetRangesTest {
  private final List<String> asked = new ArrayList<>();
  private final OffsetRanges offsetRanges =
      new OffsetRanges(
          topic -> {
            asked.add(topic);
            return "id-of-" + topic;
          });

  @Test
  void hasTheFirstAndTheLastOffsetOfEachPartition() {
    offsetRanges.add("out", 0, 7);
    offsetRanges.add("out", 3, 0);
    offsetRanges.add("out", 0, 12);
    offsetRanges.add("out", 0, 9);

    OffsetRanges.Topic topic = offsetRanges.topics().get(0);
    assertEquals("out", topic.topic());
    assertEquals("id-of-out", topic.topicId());
    assertArrayEquals(new long[][] {{0, 7, 12}, {3, 0, 0}}, topic.partitions().toArray(long[][]::new));
  }

  @Test
  void asksForTheIdOfATopicOnceAndAtOnce() {
    offsetRanges.add("out", 0, 1);
    offsetRanges.add("other", 0, 2);
    offsetRanges.add("out", 1, 3);
    offsetRanges.add("other", 0, 4);

    assertEquals(List.of("out", "other"), asked);
    assertEquals(List.of("other", "out"), offsetRanges.topics().stream().map(OffsetRanges.Topic::topic).toList());
    assertArrayEquals(new long[] {0, 2, 4}, offsetRanges.topics().get(0).partitions().get(0));
  }

  @Test
  void hasNothingOfATaskWithoutRows() {
    assertEquals(List.of(), offsetRanges.topics());
    assertEquals(List.of(), asked);
  }
}
