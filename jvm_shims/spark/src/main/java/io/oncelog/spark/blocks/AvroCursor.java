package io.oncelog.spark.blocks;

import java.io.EOFException;
import java.io.IOException;

/** Reads Avro integers from bytes, and tells its position, which Avro's own decoder does not. */
final class AvroCursor {
  private final byte[] bytes;
  private final int end;
  private int position;

  AvroCursor(byte[] bytes, int end) {
    this.bytes = bytes;
    this.end = end;
  }

  int position() {
    return position;
  }

  /** Avro's {@code long}: zigzag, seven bits per byte, lowest first. */
  long readLong() throws IOException {
    long coded = 0;
    for (int shift = 0; shift < Long.SIZE; shift += 7) {
      if (position == end) {
        throw new EOFException("a block ends within a number");
      }
      byte next = bytes[position++];
      coded |= (next & 0x7FL) << shift;
      if (next >= 0) {
        return (coded >>> 1) ^ -(coded & 1);
      }
    }
    throw new IOException("a number of more than 64 bits");
  }

  int readInt() throws IOException {
    long found = readLong();
    if (found != (int) found) {
      throw new IOException(found + " as a number of 32 bits");
    }
    return (int) found;
  }

  /** The branch of a union of null and a value: whether there is a value. */
  boolean readIsPresent() throws IOException {
    long branch = readLong();
    if (branch < 0 || branch > 1) {
      throw new IOException("branch " + branch + " of two");
    }
    return branch == 1;
  }
}
