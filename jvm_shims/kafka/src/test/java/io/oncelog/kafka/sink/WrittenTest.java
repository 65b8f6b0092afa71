package io.oncelog.kafka.sink;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class WrittenTest {
  private final List<String> asked = new ArrayList<>();
  private final Written written =
      new Written(
          topic -> {
            asked.add(topic);
            return "id-of-" + topic;
          });

  @Test
  void hasTheFirstAndTheLastOffsetOfEachPartition() {
    written.add("out", 0, 7);
    written.add("out", 3, 0);
    written.add("out", 0, 12);
    written.add("out", 0, 9);

    Written.Topic topic = written.topics().get(0);
    assertEquals("out", topic.topic());
    assertEquals("id-of-out", topic.topicId());
    assertArrayEquals(new long[][] {{0, 7, 12}, {3, 0, 0}}, topic.partitions().toArray(long[][]::new));
  }

  @Test
  void asksForTheIdOfATopicOnceAndAtOnce() {
    written.add("out", 0, 1);
    written.add("other", 0, 2);
    written.add("out", 1, 3);
    written.add("other", 0, 4);

    assertEquals(List.of("out", "other"), asked);
    assertEquals(List.of("other", "out"), written.topics().stream().map(Written.Topic::topic).toList());
    assertArrayEquals(new long[] {0, 2, 4}, written.topics().get(0).partitions().get(0));
  }

  @Test
  void hasNothingOfATaskWithoutRows() {
    assertEquals(List.of(), written.topics());
    assertEquals(List.of(), asked);
  }
}
