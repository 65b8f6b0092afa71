package io.oncelog.spark.blocks;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.util.stream.LongStream;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.EncoderFactory;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class AvroCursorTest {
  @Test
  void numbersAreReadAsAvroWritesThem() throws IOException {
    long[] numbers =
        LongStream.rangeClosed(0, 63)
            .map(bits -> 1L << bits)
            .flatMap(power -> LongStream.of(power, -power, power - 1))
            .toArray();
    byte[] bytes = written(numbers);
    AvroCursor cursor = new AvroCursor(bytes, bytes.length);

    for (long number : numbers) {
      assertEquals(number, cursor.readLong());
    }
    assertEquals(bytes.length, cursor.position());
    assertThrows(EOFException.class, cursor::readLong);
  }

  @Test
  void aNumberThatTheEndCutsOffIsRefused() throws IOException {
    byte[] bytes = written(Long.MAX_VALUE);

    assertThrows(EOFException.class, () -> new AvroCursor(bytes, bytes.length - 1).readLong());
  }

  @Test
  void aNumberOfMoreBytesThanALongHasIsRefused() {
    byte[] bytes = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0};

    assertThrows(IOException.class, () -> new AvroCursor(bytes, bytes.length).readLong());
  }

  @ParameterizedTest
  @ValueSource(longs = {Integer.MAX_VALUE + 1L, Integer.MIN_VALUE - 1L, Long.MAX_VALUE})
  void aNumberThatIsNoIntIsRefusedAsOne(long number) throws IOException {
    byte[] bytes = written(number);

    assertThrows(IOException.class, () -> new AvroCursor(bytes, bytes.length).readInt());
  }

  @Test
  void aUnionHasTwoBranches() throws IOException {
    byte[] bytes = written(0, 1, 2, -1);
    AvroCursor cursor = new AvroCursor(bytes, bytes.length);

    assertFalse(cursor.readIsPresent());
    assertTrue(cursor.readIsPresent());
    assertThrows(IOException.class, cursor::readIsPresent);
    assertThrows(IOException.class, cursor::readIsPresent);
  }

  private static byte[] written(long... numbers) throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    BinaryEncoder encoder = EncoderFactory.get().binaryEncoder(bytes, null);
    for (long number : numbers) {
      encoder.writeLong(number);
    }
    encoder.flush();
    return bytes.toByteArray();
  }
}
