package io.oncelog.kafka.source;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.Random;
import org.junit.jupiter.api.Test;

class OffsetRangeTest {
  private static final OptionalInt ANY = OptionalInt.empty();
  private static final OptionalLong UNBOUNDED = OptionalLong.empty();

  @Test
  void emptyRangesAreLeftOutAndOthersKeptWholeWithTheirExecutor() {
    OffsetRange full = new OffsetRange("t", 1, "id", 3, 7, "executor_h_1");

    assertEquals(List.of(full), OffsetRange.split(List.of(range(5, 5), full), ANY, UNBOUNDED));
    assertEquals(List.of(), OffsetRange.split(List.of(range(5, 5)), OptionalInt.of(8), OptionalLong.of(1)));
  }

  @Test
  void bigRangesAreCutIntoMorePartsThanSmallOnes() {
    OffsetRange small = new OffsetRange("u", 0, "id", 0, 10, null);
    List<OffsetRange> parts = OffsetRange.split(List.of(range(0, 90), small), OptionalInt.of(10), UNBOUNDED);

    assertEquals(9, parts.stream().filter(part -> part.topic().equals("t")).count());
    assertEquals(1, parts.stream().filter(part -> part.topic().equals("u")).count());
  }

  @Test
  void partsOfAnyRangeCoverItOnceInOrderAndNoneIsTooBig() {
    Random random = new Random(20261124);
    for (int turn = 0; turn < 500; turn++) {
      long start = random.nextLong(1_000_000);
      OffsetRange whole = range(start, start + 1 + random.nextLong(200));
      OptionalInt least = random.nextBoolean() ? ANY : OptionalInt.of(1 + random.nextInt(50));
      OptionalLong most = random.nextBoolean() ? UNBOUNDED : OptionalLong.of(1 + random.nextLong(50));

      assertCovers(whole, OffsetRange.split(List.of(whole), least, most), most.orElse(Long.MAX_VALUE));
    }
  }

  @Test
  void theLargestLimitAndTheLongestRangeDoNotOverflow() {
    OffsetRange longest = range(0, Long.MAX_VALUE);

    assertEquals(List.of(longest), OffsetRange.split(List.of(longest), ANY, OptionalLong.of(Long.MAX_VALUE)));
    List<OffsetRange> parts = OffsetRange.split(List.of(longest), OptionalInt.of(1_000), UNBOUNDED);
    assertEquals(1_000, parts.size());
    assertCovers(longest, parts, Long.MAX_VALUE / 1_000 + 1);
  }

  private static void assertCovers(OffsetRange whole, List<OffsetRange> parts, long most) {
    long next = whole.start();
    for (OffsetRange part : parts) {
      assertEquals(next, part.start());
      assertTrue(part.size() > 0 && part.size() <= most, part + " of " + whole);
      next = part.end();
    }
    assertEquals(whole.end(), next);
  }

  private static OffsetRange range(long start, long end) {
    return new OffsetRange("t", 0, "id", start, end, null);
  }
}
