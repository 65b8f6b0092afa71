package io.oncelog.spark.blocks;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class IntegersTest {
  @ParameterizedTest
  @CsvSource({"1, 255", "2, 65535", "4, 4294967295", "8, 9223372036854775807"})
  void theLargestNumberOfAWidthIsNotNegative(int width, long largest) {
    ByteBuffer bytes = ByteBuffer.allocate(3 + 2 * 8).order(ByteOrder.LITTLE_ENDIAN);
    bytes.putLong(3, 7);
    bytes.putLong(3 + width, largest);
    Integers numbers = Integers.of(new Bytes(bytes.array(), 3, 2 * width), width);

    assertEquals(7, numbers.get(0));
    assertEquals(largest, numbers.get(1));
  }

  @Test
  void aSumIsOfTheNumbersFromTheFirstToBeforeTheLast() {
    Integers numbers = Integers.of(new Bytes(new byte[] {1, 2, 3, 4}, 0, 4), 1);

    assertEquals(5, numbers.sum(1, 3));
    assertEquals(0, numbers.sum(2, 2));
    assertEquals(10, numbers.sum(0, 4));
  }

  @Test
  void oneNumberMayStandForAll() {
    Integers same = Integers.same(Integer.MAX_VALUE);

    assertEquals(Integer.MAX_VALUE, same.get(1_000_000));
    assertEquals(3L * Integer.MAX_VALUE, same.sum(5, 8));
  }
}
