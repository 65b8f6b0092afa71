package io.oncelog.kafka.source;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Optional;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class LogStateTest {
  private static final OffsetRange PLANNED = new OffsetRange("t", 0, "planned", 0, 10, null);

  @ParameterizedTest
  @CsvSource({
    // topic id, log end, last look, why the range from 5 on is lost
    "planned, 6, false, ",
    "planned, 6, true, ", // unreachable, or in an open transaction
    "another, 6, false, ", // the broker may have outdated metadata
    "another, 6, true, ",
    "planned, 5, false, ",
    "planned, 5, true, the log ends before",
    "planned, 0, true, the log ends before",
    "another, 5, false, the topic was deleted and created again",
    "another, 0, false, the topic was deleted and created again",
    "another, 5, true, the topic was deleted and created again",
  })
  void aRangeIsLostInATopicCreatedAgainOrWhenAShortLogWasWaitedForInVain(
      String topicId, long end, boolean isLast, String reason) {
    Optional<String> loss = new LogState(topicId, end).loss(PLANNED, 5, isLast);

    assertEquals(reason != null, loss.isPresent());
    loss.ifPresent(text -> assertTrue(text.startsWith(reason), text));
  }
}
