package io.oncelog.spark.sink;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.hash.Murmur3_x86_32;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The bytes of one column of a row, where Spark has them. One span is pointed at one row after another, because a
 * {@code UTF8String} for each costs more than the copy of its bytes.
 */
final class Span {
  private static final int OFFSET_BITS = 32;

  private Object base;
  private long offset;
  private int length;

  /**
   * Points at a column that is not null: bytes or a text, which lie in an unsafe row in the same way.
   *
   * @return this span
   */
  Span at(InternalRow row, int column, boolean isText) {
    if (row instanceof UnsafeRow) {
      UnsafeRow unsafe = (UnsafeRow) row;
      long offsetAndLength = unsafe.getLong(column);
      base = unsafe.getBaseObject();
      offset = unsafe.getBaseOffset() + (offsetAndLength >>> OFFSET_BITS);
      length = (int) offsetAndLength;
    } else if (isText) {
      UTF8String text = row.getUTF8String(column);
      base = text.getBaseObject();
      offset = text.getBaseOffset();
      length = text.numBytes();
    } else {
      byte[] bytes = row.getBinary(column);
      base = bytes;
      offset = Platform.BYTE_ARRAY_OFFSET;
      length = bytes.length;
    }
    return this;
  }

  int length() {
    return length;
  }

  void copyTo(byte[] target, int position) {
    if (base instanceof byte[]) { // the quicker copy, of a few bytes
      System.arraycopy(base, (int) (offset - Platform.BYTE_ARRAY_OFFSET), target, position, length);
    } else {
      Platform.copyMemory(base, offset, target, Platform.BYTE_ARRAY_OFFSET + position, length);
    }
  }

  /** The number that {@code hash(column)} is in a query with this seed. */
  int hash(int seed) {
    return Murmur3_x86_32.hashUnsafeBytes(base, offset, length, seed);
  }
}
