package io.oncelog.kafka.source;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class LogEndsTest {
  private static final TopicPartition FIRST = new TopicPartition("t", 0);
  private static final TopicPartition SECOND = new TopicPartition("t", 1);

  @ParameterizedTest
  @CsvSource({
    // last stable offset, log end, known offset, lost, held, readable from there
    "7, 12, 6, false, false, 7",
    "7, 12, 7, false, false, 7",
    "7, 12, 8, false, true, 8",
    "7, 12, 12, false, true, 12",
    "7, 12, 13, true, false, 13",
    "7, 7, 8, true, false, 8",
    "0, 5, 5, false, true, 5",
    "0, 0, 0, false, false, 0",
  })
  void onlyAnOffsetBeyondTheLogsEndIsLost(
      long stable, long end, long known, boolean isLost, boolean isHeld, long readable) {
    LogEnds logs = new LogEnds(Map.of(FIRST, stable), Map.of(FIRST, end));
    Map<TopicPartition, Long> at = Map.of(FIRST, known);

    assertEquals(isLost, logs.lost(at).contains(FIRST));
    assertEquals(isHeld, logs.held(at).contains(FIRST));
    assertEquals(Map.of(FIRST, readable), logs.readableFrom(at));
  }

  @Test
  void aPartitionWithoutAKnownOffsetIsNeitherLostNorHeld() {
    LogEnds logs = new LogEnds(Map.of(FIRST, 1L, SECOND, 0L), Map.of(FIRST, 1L, SECOND, 9L));

    assertEquals(Set.of(), logs.lost(Map.of(FIRST, 1L)));
    assertEquals(Set.of(), logs.held(Map.of(FIRST, 1L)));
    assertEquals(Map.of(FIRST, 1L, SECOND, 0L), logs.readableFrom(Map.of(FIRST, 1L)));
  }
}
