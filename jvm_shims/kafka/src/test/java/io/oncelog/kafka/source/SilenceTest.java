package io.oncelog.kafka.source;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class SilenceTest {
  /** The clock may begin anywhere, even shortly before its numbers overflow. */
  @ParameterizedTest
  @ValueSource(longs = {0, -1, Long.MIN_VALUE, Long.MAX_VALUE - 5})
  void looksComeAtTwiceTheTimeEachAndOneAtTheEnd(long startNs) {
    assertEquals(List.of(1L, 2L, 4L, 8L, 10L), secondsOfLooks(new Silence(startNs, 10_000), startNs));
    assertEquals(List.of(1L), secondsOfLooks(new Silence(startNs, 1_000), startNs));
  }

  @Test
  void aShortPatienceHasItsOnlyLookAtItsEnd() {
    Silence silence = new Silence(0, 5);

    assertEquals(Duration.ofMillis(5), silence.untilLook(0));
    assertFalse(silence.isTimeToLook(TimeUnit.MILLISECONDS.toNanos(5) - 1));
    assertTrue(silence.isTimeToLook(TimeUnit.MILLISECONDS.toNanos(5)));
    assertTrue(silence.isOver(TimeUnit.MILLISECONDS.toNanos(5)));
  }

  @Test
  void whatALookTakesDoesNotCount() {
    Silence silence = new Silence(0, 2_000);
    long second = TimeUnit.SECONDS.toNanos(1);

    silence.looked(second, 31 * second);
    assertFalse(silence.isOver(31 * second));
    assertEquals(Duration.ofSeconds(1), silence.untilLook(31 * second));
    assertTrue(silence.isOver(32 * second));
  }

  @Test
  void theLongestPatienceIsNeverOver() {
    long startNs = Long.MAX_VALUE - 5;
    Silence silence = new Silence(startNs, Long.MAX_VALUE);

    assertEquals(Duration.ofSeconds(1), silence.untilLook(startNs));
    assertFalse(silence.isOver(startNs + TimeUnit.DAYS.toNanos(365)));
  }

  private static List<Long> secondsOfLooks(Silence silence, long startNs) {
    List<Long> looks = new ArrayList<>();
    long timeNs = startNs;
    do {
      timeNs += silence.untilLook(timeNs).toNanos();
      assertTrue(silence.isTimeToLook(timeNs));
      looks.add(TimeUnit.NANOSECONDS.toSeconds(timeNs - startNs));
      silence.looked(timeNs, timeNs);
    } while (!silence.isOver(timeNs));
    return looks;
  }
}
