package io.oncelog.spark.sink;

import java.io.Closeable;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.List;
import java.util.zip.CRC32;

/**
 * Encodes records as one block of a data file, in the layout of docs/reference/data-format.md; in Python it is
 * columns.encode and codec.encode_block.
 */
final class BlockEncoder implements Closeable {
  /** The order is that of the Avro enumeration. */
  private static final List<String> CODECS = List.of("null", "lz4", "zstd");

  private static final int FORMAT_VERSION = 1;
  private static final VarHandle SHORT = MethodHandles.byteArrayViewVarHandle(short[].class, ByteOrder.LITTLE_ENDIAN);
  private static final VarHandle INT = MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);
  private static final VarHandle LONG = MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);

  /** A block's bytes, which are valid until the next block is encoded, and what the index has to know. */
  record Encoded(ByteBuffer[] parts, long length, long crc32, int count, long minTimestampMs, long maxTimestampMs) {}

  private final int codec;
  private final Compressor body;
  private final AvroFields framing = new AvroFields();
  private final AvroFields fields = new AvroFields();
  private byte[] narrowed = new byte[0];

  BlockEncoder(WriteTask task) {
    codec = CODECS.indexOf(task.codec());
    body = new Compressor(task.codec(), task.level());
  }

  /**
   * @param records at least one
   * @param syncMarker of the file
   */
  Encoded encode(Records records, byte[] syncMarker) {
    framing.clear();
    fields.clear();
    body.clear();
    int count = records.count();
    long[] timestamps = records.timestamps();
    long lowest = Arrays.stream(timestamps, 0, count).min().getAsLong();
    long highest = Arrays.stream(timestamps, 0, count).max().getAsLong();
    fields.add(FORMAT_VERSION).add(count).add(lowest).add(highest).add(codec);
    if (fields.addIsPresent(lowest < highest)) {
      for (int row = 0; row < count; row++) {
        timestamps[row] -= lowest;
      }
      addIntegers(timestamps, count);
    }
    addOptional(records.key);
    addOptional(records.value);
    addHeaders(records);
    fields.add(body.size());
    framing.add(1).add((long) fields.size() + body.size());
    ByteBuffer[] parts = {
      ByteBuffer.wrap(framing.bytes(), 0, framing.size()),
      ByteBuffer.wrap(fields.bytes(), 0, fields.size()),
      ByteBuffer.wrap(body.body(), 0, body.size()),
      ByteBuffer.wrap(syncMarker)
    };
    long length = 0;
    CRC32 crc32 = new CRC32();
    for (ByteBuffer part : parts) {
      length += part.remaining();
      crc32.update(part.duplicate());
    }
    return new Encoded(parts, length, crc32.getValue(), count, lowest, highest);
  }

  @Override
  public void close() {
    body.close();
  }

  private void addOptional(ByteStrings column) {
    if (fields.addIsPresent(!column.isAllNull())) {
      addBinary(column);
    }
  }

  private void addBinary(ByteStrings column) {
    if (fields.addIsPresent(column.hasNulls())) {
      addBuffer(column.validity(), column.validityBytes());
    }
    if (fields.addIsPresent(!isSame(column.lengths(), column.count()))) {
      addIntegers(column.lengths(), column.count());
    }
    addBuffer(column.bytes(), column.size());
  }

  /** A record without headers has an empty list: readers show it as null. */
  private void addHeaders(Records records) {
    if (fields.addIsPresent(records.headerKeys.count() > 0)) {
      fields.addIsPresent(false);
      addIntegers(records.headerCounts(), records.count());
      addBinary(records.headerKeys);
      addOptional(records.headerValues);
    }
  }

  /** Integers of 0 or more, each in the fewest bytes that hold the largest one. */
  private void addIntegers(long[] numbers, int count) {
    long highest = Arrays.stream(numbers, 0, count).max().getAsLong();
    int width = highest < 1L << Byte.SIZE ? 1 : highest < 1L << Short.SIZE ? 2 : highest < 1L << Integer.SIZE ? 4 : 8;
    if (narrowed.length < width * count) {
      narrowed = new byte[width * count];
    }
    for (int at = 0; at < count; at++) {
      switch (width) {
        case 1 -> narrowed[at] = (byte) numbers[at];
        case 2 -> SHORT.set(narrowed, 2 * at, (short) numbers[at]);
        case 4 -> INT.set(narrowed, 4 * at, (int) numbers[at]);
        default -> LONG.set(narrowed, 8 * at, numbers[at]);
      }
    }
    addBuffer(narrowed, width * count);
  }

  private void addBuffer(byte[] raw, int size) {
    long position = body.size();
    fields.add(position).add(body.append(raw, size)).add(size);
  }

  private static boolean isSame(long[] numbers, int count) {
    for (int at = 1; at < count; at++) {
      if (numbers[at] != numbers[0]) {
        return false;
      }
    }
    return true;
  }
}
