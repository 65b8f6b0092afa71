package io.oncelog.spark.sink;

import java.util.Arrays;

/** A column of byte strings that grows: their bytes one after another, their lengths, and which of them are null. */
final class ByteStrings {
  private static final int FIRST_ROWS = 64;
  private static final int FIRST_BYTES = 4096;
  private static final int BITS = 8;

  private byte[] bytes = new byte[FIRST_BYTES];
  private int size;
  private long[] lengths = new long[FIRST_ROWS];
  private byte[] validity = new byte[FIRST_ROWS / BITS];
  private int count;
  private int nulls;

  /**
   * Appends a copy.
   *
   * @param value any bytes; null for a null
   */
  void add(Span value) {
    if (count == lengths.length) {
      lengths = Arrays.copyOf(lengths, 2 * count);
      validity = Arrays.copyOf(validity, 2 * count / BITS);
    }
    int length = 0;
    if (value == null) {
      nulls++;
    } else {
      length = value.length();
      if (length > bytes.length - size) {
        bytes = Arrays.copyOf(bytes, Math.max(2 * bytes.length, size + length));
      }
      value.copyTo(bytes, size);
      size += length;
      validity[count / BITS] |= (byte) (1 << count % BITS);
    }
    lengths[count++] = length;
  }

  void clear() {
    Arrays.fill(validity, 0, (count + BITS - 1) / BITS, (byte) 0);
    size = 0;
    count = 0;
    nulls = 0;
  }

  int count() {
    return count;
  }

  boolean isAllNull() {
    return nulls == count;
  }

  boolean hasNulls() {
    return nulls > 0;
  }

  byte[] bytes() {
    return bytes;
  }

  int size() {
    return size;
  }

  long[] lengths() {
    return lengths;
  }

  byte[] validity() {
    return validity;
  }

  int validityBytes() {
    return (count + BITS - 1) / BITS;
  }
}
