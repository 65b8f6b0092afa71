package io.oncelog.kafka.source;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashMap;
import java.util.Map;
import java.util.Random;
import java.util.stream.LongStream;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;

class AdmissionTest {
  @Test
  void whatFitsIsTakenWhole() {
    Map<TopicPartition, Long> to = offsets(10, 20);

    assertEquals(to, Admission.limit(30, offsets(0, 0), to));
    assertEquals(to, Admission.limit(Long.MAX_VALUE, offsets(0, 0), to));
  }

  @Test
  void eachPartitionGetsItsShareOfTheBacklog() {
    assertEquals(offsets(9, 1), Admission.limit(10, offsets(0, 0), offsets(90, 10)));
  }

  @Test
  void aPartitionWithLittleIsNotStarvedByOneWithMuch() {
    Map<TopicPartition, Long> ends = Admission.limit(10, offsets(0, 0), offsets(1_000_000, 5));

    assertEquals(offsets(9, 1), ends);
  }

  @Test
  void aBatchHasExactlyTheLimitAndNoPartitionGoesBackOrTooFar() {
    Random random = new Random(20261124);
    for (int turn = 0; turn < 500; turn++) {
      long[] starts = random.longs(1 + random.nextInt(6), 0, 1_000).toArray();
      Map<TopicPartition, Long> from = offsets(starts);
      long[] ends = LongStream.of(starts).map(start -> start + random.nextLong(300)).toArray();
      Map<TopicPartition, Long> to = offsets(ends);
      long most = 1 + random.nextLong(500);

      Map<TopicPartition, Long> admitted = Admission.limit(most, from, to);

      assertEquals(Math.min(most, Admission.backlog(from, to)), Admission.backlog(from, admitted));
      admitted.forEach(
          (partition, end) ->
              assertTrue(end >= from.get(partition) && end <= to.get(partition), from + " " + admitted + " " + to));
    }
  }

  @Test
  void aLimitBelowTheNumberOfPartitionsServesAllOfThemInTurn() {
    Map<TopicPartition, Long> from = offsets(0, 0, 0);
    Map<TopicPartition, Long> to = offsets(50, 50, 50);
    for (int batch = 0; batch < 60; batch++) {
      from = Admission.limit(1, from, to);
    }

    assertEquals(60, Admission.backlog(offsets(0, 0, 0), from));
    assertTrue(from.values().stream().allMatch(offset -> offset > 0), from.toString());
  }

  @Test
  void aPartitionThatIsNewOrWentBackHasNoBacklog() {
    assertEquals(0, Admission.backlog(Map.of(), offsets(7)));
    assertEquals(0, Admission.backlog(offsets(9), offsets(7)));
  }

  private static Map<TopicPartition, Long> offsets(long... numbers) {
    Map<TopicPartition, Long> offsets = new HashMap<>();
    for (int i = 0; i < numbers.length; i++) {
      offsets.put(new TopicPartition("t", i), numbers[i]);
    }
    return offsets;
  }
}
