package io.oncelog.spark.blocks;

import io.oncelog.spark.blocks.BatchFields.Binary;
import io.oncelog.spark.blocks.BatchFields.Buffer;
import java.io.IOException;

/** The buffers of a batch. What a method returns is valid until the next call. */
final class Body {
  /** The same as Python's columns.MAX_BUFFER_BYTES. */
  private static final int MAX_BUFFER_BYTES = 64 << 20;

  private final Bytes body;
  private final Compression compression;
  private final Decompressor decompressor;

  Body(Bytes body, Compression compression, Decompressor decompressor) {
    this.body = body;
    this.compression = compression;
    this.decompressor = decompressor;
  }

  /** The bytes of a buffer, decompressed; not copied if they were not compressed. */
  Bytes get(Buffer buffer) throws IOException {
    long length = buffer.length();
    if (buffer.position() < 0 || length < 0 || buffer.position() > body.size() - length) {
      throw new IOException(buffer + " in a body of " + body.size());
    }
    Bytes stored = new Bytes(body.array(), body.start() + (int) buffer.position(), (int) length);
    if (length == buffer.size()) {
      return stored;
    }
    if (compression == Compression.NULL || buffer.size() < 0 || buffer.size() > MAX_BUFFER_BYTES) {
      throw new IOException(buffer + " cannot hold as much");
    }
    return decompressor.decompress(compression, stored, (int) buffer.size());
  }

  /** {@code count} integers, whose width is the buffer's size divided by {@code count}. */
  Integers integers(Buffer buffer, int count) throws IOException {
    Bytes raw = get(buffer);
    int width = count == 0 ? 1 : raw.size() / count;
    if (raw.size() != (long) width * count || (width != 1 && width != 2 && width != 4 && width != 8)) {
      throw new IOException(raw.size() + " bytes for " + count + " integers");
    }
    return Integers.of(raw, width);
  }

  /** The lengths of list entries. */
  Integers lengths(Buffer buffer, int count) throws IOException {
    Integers found = integers(buffer, count);
    if (found.width() == Long.BYTES) {
      throw new IOException("lengths of 64 bits");
    }
    return found;
  }

  /** The lengths of a column's byte strings, which add up to the size of its values. */
  Integers lengths(Binary column, int count) throws IOException {
    long size = column.values().size();
    Integers found =
        column.lengths() == null ? Integers.same(size / Math.max(count, 1)) : lengths(column.lengths(), count);
    if (found.sum(0, count) != size) {
      throw new IOException(size + " bytes for entries of " + found.sum(0, count));
    }
    return found;
  }

  /** A bitmap, lowest bit first. */
  Bytes bitmap(Buffer buffer, int count) throws IOException {
    Bytes found = get(buffer);
    if (found.size() != (count + 7) / 8) {
      throw new IOException("a bitmap of " + found.size() + " bytes for " + count + " entries");
    }
    return found;
  }
}
