package io.oncelog.spark.blocks;

import java.io.EOFException;
import java.io.IOException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;

/** Decodes an LZ4 block after the output of earlier blocks, to which its matches may refer. */
final class Lz4Block {
  private static final VarHandle SHORT = MethodHandles.byteArrayViewVarHandle(short[].class, ByteOrder.LITTLE_ENDIAN);
  private static final VarHandle LONG = MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);

  /** In either half of a token: the length continues in further bytes, the last of which is less than 255. */
  private static final int MORE = 15;

  private static final int LEAST_MATCH = 4;

  /** The least that follows literals that are not the last ones: a distance, a token, and five literals at the end. */
  private static final int LEAST_REST = Short.BYTES + 1 + 5;

  /** Most copies are at most this long, and are made as two longs if the arrays are long enough. */
  private static final int SHORT_COPY = 2 * Long.BYTES;

  private Lz4Block() {}

  /**
   * Decodes a block of at most 4 MiB to {@code result[at, limit)}; no match begins before {@code first}. Bytes of the
   * result after the limit may change.
   *
   * @return where the output ends
   * @throws IOException the block is damaged, or its output is too long
   */
  static int decompress(Bytes block, byte[] result, int first, int at, int limit) throws IOException {
    byte[] bytes = block.array();
    int position = block.start();
    int end = position + block.size();
    while (position < end) {
      int token = bytes[position++] & 0xFF;
      int literals = token >>> 4;
      if (literals == MORE) {
        int full = fullBytes(bytes, position, end);
        position += full + 1;
        literals += full * 0xFF + (bytes[position - 1] & 0xFF);
      }
      if (literals > end - position || literals > limit - at) {
        throw new IOException(literals + " literals of LZ4 in " + (end - position) + " bytes for " + (limit - at));
      }
      copyLiterals(bytes, position, result, at, literals);
      position += literals;
      at += literals;
      if (position == end) {
        return at;
      }
      if (end - position < LEAST_REST) {
        break;
      }
      int distance = (short) SHORT.get(bytes, position) & 0xFFFF;
      position += Short.BYTES;
      int length = LEAST_MATCH + (token & MORE);
      if (length == LEAST_MATCH + MORE) {
        int full = fullBytes(bytes, position, end);
        position += full + 1;
        length += full * 0xFF + (bytes[position - 1] & 0xFF);
      }
      if (distance == 0 || distance > at - first || length > limit - at) {
        throw new IOException(
            "a match of LZ4, " + length + " bytes for " + (limit - at) + ", " + distance + " back of " + (at - first));
      }
      copyMatch(result, at, distance, length);
      at += length;
    }
    throw new EOFException("a block of LZ4 ends before its last literals");
  }

  /** How many bytes of 255 come before a different byte. */
  private static int fullBytes(byte[] bytes, int position, int end) throws IOException {
    for (int next = position; next < end; next++) {
      if (bytes[next] != -1) {
        return next - position;
      }
    }
    throw new EOFException("a block of LZ4 ends within a length");
  }

  private static void copyLiterals(byte[] bytes, int position, byte[] result, int at, int count) {
    if (count <= SHORT_COPY && bytes.length - position >= SHORT_COPY && result.length - at >= SHORT_COPY) {
      copyLong(bytes, position, result, at);
      copyLong(bytes, position + Long.BYTES, result, at + Long.BYTES);
    } else {
      System.arraycopy(bytes, position, result, at, count);
    }
  }

  /** A match that overlaps its own output repeats it, so each copy can be twice as long as the one before. */
  private static void copyMatch(byte[] result, int at, int distance, int length) {
    int from = at - distance;
    if (length <= SHORT_COPY && distance >= Long.BYTES && result.length - at >= SHORT_COPY) {
      copyLong(result, from, result, at);
      copyLong(result, from + Long.BYTES, result, at + Long.BYTES);
      return;
    }
    int end = at + length;
    for (int to = at; to < end; ) {
      int count = Math.min(end - to, to - from);
      System.arraycopy(result, from, result, to, count);
      to += count;
    }
  }

  private static void copyLong(byte[] from, int position, byte[] to, int at) {
    LONG.set(to, at, (long) LONG.get(from, position));
  }
}
