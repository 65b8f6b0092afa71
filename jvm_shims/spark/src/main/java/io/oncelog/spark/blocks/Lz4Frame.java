package io.oncelog.spark.blocks;

import java.io.EOFException;
import java.io.IOException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import net.jpountz.xxhash.XXHash32;
import net.jpountz.xxhash.XXHashFactory;

/**
 * Decodes an LZ4 frame with linked or independent blocks. pyarrow links the blocks of buffers of more than 64 KiB,
 * which lz4-java's frame reader does not support.
 */
final class Lz4Frame {
  private static final VarHandle INT = MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);
  private static final VarHandle LONG = MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
  private static final XXHash32 HASH = XXHashFactory.fastestInstance().hash32();
  private static final int MAGIC = 0x184D2204;

  // The first byte of the descriptor: the version in its upper two bits, and flags.
  private static final int VERSION = 1;
  private static final int INDEPENDENT = 1 << 5;
  private static final int BLOCK_CHECKSUMS = 1 << 4;
  private static final int CONTENT_SIZE = 1 << 3;
  private static final int CONTENT_CHECKSUM = 1 << 2;
  private static final int RESERVED = 1 << 1;
  private static final int DICTIONARY = 1;

  private final byte[] bytes;
  private final int end;
  private final byte[] result;
  private final int size;
  private int position;
  private int flags;
  private int maxBlockSize;

  private Lz4Frame(Bytes frame, byte[] result, int size) {
    bytes = frame.array();
    position = frame.start();
    end = position + frame.size();
    this.result = result;
    this.size = size;
  }

  /**
   * Decodes a frame to {@code result[0, size)}; bytes after that may change.
   *
   * @return how many bytes it gives
   * @throws IOException the frame is damaged, or its output is too long
   */
  static int decompress(Bytes frame, byte[] result, int size) throws IOException {
    return new Lz4Frame(frame, result, size).decode();
  }

  private int decode() throws IOException {
    readDescriptor();
    int found = 0;
    for (int head = readInt(); head != 0; head = readInt()) {
      found = readBlock(head, found);
    }
    if (has(CONTENT_CHECKSUM)) {
      checkHash(result, 0, found);
    }
    if (position != end) {
      throw new IOException((end - position) + " bytes behind an LZ4 frame");
    }
    return found;
  }

  private void readDescriptor() throws IOException {
    if (readInt() != MAGIC) {
      throw new IOException("no LZ4 frame");
    }
    int start = take(2);
    flags = bytes[start];
    int code = bytes[start + 1];
    if ((flags & 0xFF) >> 6 != VERSION || has(RESERVED) || (code & ~0x70) != 0 || code >> 4 < 4) {
      throw new IOException(String.format("an LZ4 frame of an unknown form, %02x %02x", flags & 0xFF, code & 0xFF));
    }
    if (has(DICTIONARY)) {
      throw new IOException("an LZ4 frame that needs a dictionary");
    }
    maxBlockSize = 1 << 8 + 2 * (code >> 4);
    long content = has(CONTENT_SIZE) ? (long) LONG.get(bytes, take(Long.BYTES)) : size;
    int hash = HASH.hash(bytes, start, position - start, 0);
    if (bytes[take(1)] != (byte) (hash >> 8)) {
      throw new IOException("a descriptor of an LZ4 frame with another checksum");
    }
    if (content != size) {
      throw new IOException("an LZ4 frame of " + content + " bytes that should hold " + size);
    }
  }

  /** Appends the output of a block to the first {@code found} bytes; returns how many there are then. */
  private int readBlock(int head, int found) throws IOException {
    boolean isStored = head < 0;
    int length = head & Integer.MAX_VALUE;
    if (length > maxBlockSize) {
      throw new IOException("a block of LZ4 of " + length + " bytes, which has " + maxBlockSize + " at most");
    }
    Bytes block = new Bytes(bytes, take(length), length);
    if (has(BLOCK_CHECKSUMS)) {
      checkHash(bytes, block.start(), length);
    }
    int limit = found + Math.min(maxBlockSize, size - found);
    if (!isStored) {
      return Lz4Block.decompress(block, result, has(INDEPENDENT) ? found : 0, found, limit);
    }
    if (length > limit - found) {
      throw new IOException("a block of " + length + " bytes for " + (limit - found));
    }
    System.arraycopy(bytes, block.start(), result, found, length);
    return found + length;
  }

  private boolean has(int flag) {
    return (flags & flag) != 0;
  }

  /** Compares bytes with the next checksum in the frame. */
  private void checkHash(byte[] of, int start, int length) throws IOException {
    if (readInt() != HASH.hash(of, start, length, 0)) {
      throw new IOException("bytes of LZ4 with another checksum");
    }
  }

  private int readInt() throws IOException {
    return (int) INT.get(bytes, take(Integer.BYTES));
  }

  /** Skips some bytes; returns where they begin. */
  private int take(int count) throws IOException {
    if (count > end - position) {
      throw new EOFException("an LZ4 frame ends early");
    }
    position += count;
    return position - count;
  }
}
