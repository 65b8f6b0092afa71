package io.oncelog.spark.sink;

import java.util.Arrays;

/** Writes Avro's integers, of which all fields of a block consist. */
final class AvroFields {
  private static final int FIRST_BYTES = 512;
  private static final int MAX_BYTES = 10;

  private byte[] bytes = new byte[FIRST_BYTES];
  private int size;

  /** Avro's {@code long}, and {@code int}: zigzag, seven bits per byte, lowest first. */
  AvroFields add(long number) {
    if (size + MAX_BYTES > bytes.length) {
      bytes = Arrays.copyOf(bytes, 2 * bytes.length);
    }
    long rest = (number << 1) ^ (number >> (Long.SIZE - 1));
    while ((rest & ~0x7FL) != 0) {
      bytes[size++] = (byte) (rest & 0x7F | 0x80);
      rest >>>= 7;
    }
    bytes[size++] = (byte) rest;
    return this;
  }

  /** The branch of a union of null and a value. */
  boolean addIsPresent(boolean isPresent) {
    add(isPresent ? 1 : 0);
    return isPresent;
  }

  void clear() {
    size = 0;
  }

  byte[] bytes() {
    return bytes;
  }

  int size() {
    return size;
  }
}
