package io.oncelog.spark.blocks;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;

/** Unsigned integers of 1, 2, 4 or 8 bytes each, or one integer that is repeated. */
final class Integers {
  private static final VarHandle SHORT = MethodHandles.byteArrayViewVarHandle(short[].class, ByteOrder.LITTLE_ENDIAN);
  private static final VarHandle INT = MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);
  private static final VarHandle LONG = MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
  private static final int SAME = 0;

  private final byte[] bytes;
  private final int start;
  private final int width;
  private final long same;

  private Integers(byte[] bytes, int start, int width, long same) {
    this.bytes = bytes;
    this.start = start;
    this.width = width;
    this.same = same;
  }

  static Integers of(Bytes bytes, int width) {
    return new Integers(bytes.array(), bytes.start(), width, 0);
  }

  static Integers same(long number) {
    return new Integers(null, 0, SAME, number);
  }

  int width() {
    return width;
  }

  long get(int index) {
    int at = start + index * width;
    return switch (width) {
      case SAME -> same;
      case 1 -> bytes[at] & 0xFFL;
      case 2 -> (short) SHORT.get(bytes, at) & 0xFFFFL;
      case 4 -> (int) INT.get(bytes, at) & 0xFFFF_FFFFL;
      default -> (long) LONG.get(bytes, at);
    };
  }

  /** The sum of the integers at {@code [from, to)}. */
  long sum(int from, int to) {
    if (width == SAME) {
      return same * (to - from);
    }
    long sum = 0;
    for (int index = from; index < to; index++) {
      sum += get(index);
    }
    return sum;
  }
}
