package io.oncelog.spark.blocks;

import java.io.Closeable;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.zip.CRC32;

/**
 * Reads blocks that the index names, one after another. A block is used only after a check that its bytes are those
 * that were written.
 */
public final class BlockReader implements Closeable {
  static final int MAX_ENTRIES = 1 << 24;

  private static final int FORMAT_VERSION = 1;
  private static final int SYNC_BYTES = 16;

  private final DataFiles files;
  private final Decompressor decompressor = new Decompressor();
  private byte[] bytes = new byte[0];

  /**
   * @param folder of the log
   */
  public BlockReader(Path folder) {
    files = new DataFiles(folder);
  }

  /**
   * Writes the records {@code [first, end)} of a block into columns.
   *
   * @throws DataLossError the file is gone
   * @throws CorruptDataError the file does not hold what was written
   * @throws UnsupportedFormatError a newer oncelog wrote it
   * @throws FileUnavailableError the file cannot be read now
   */
  public void read(Block block, long first, long end, RecordVectors into) {
    load(block);
    try {
      decode(block, first, end, into);
    } catch (IOException | ArithmeticException problem) {
      throw new CorruptDataError(
          "a block of a data file does not hold a record batch",
          problem,
          "file", block.file(),
          "position", block.position(),
          "reason", problem);
    }
  }

  @Override
  public void close() throws IOException {
    decompressor.close();
    files.close();
  }

  /** Allocates no more than the file has, because the length in the index may be damaged. */
  private void load(Block block) {
    int available = files.available(block);
    if (bytes.length < available) {
      bytes = new byte[available];
    }
    checkSame(block, "length", block.length(), files.read(block, ByteBuffer.wrap(bytes, 0, available)));
    CRC32 crc32 = new CRC32();
    crc32.update(bytes, 0, available);
    checkSame(block, "crc32", block.crc32(), crc32.getValue());
  }

  private void decode(Block block, long first, long end, RecordVectors into) throws IOException {
    int length = (int) block.length(); // load() has read this many bytes
    AvroCursor cursor = new AvroCursor(bytes, length);
    long contentEnd = framing(cursor, length);
    checkVersion(block, cursor.readInt());
    BatchFields fields = BatchFields.read(cursor);
    long bodyLength = cursor.readLong();
    if (cursor.position() + bodyLength != contentEnd) {
      throw new IOException("a body of " + bodyLength + " bytes at " + cursor.position() + " of " + contentEnd);
    }
    if (fields.count() < 1 || fields.count() > MAX_ENTRIES) {
      throw new IOException("a batch of " + fields.count() + " records");
    }
    checkSame(block, "count", block.count(), fields.count());
    checkSame(block, "min_timestamp_ms", block.minTimestampMs(), fields.minTimestampMs());
    checkSame(block, "max_timestamp_ms", block.maxTimestampMs(), fields.maxTimestampMs());
    Bytes stored = new Bytes(bytes, cursor.position(), (int) bodyLength);
    Body body = new Body(stored, fields.compression(), decompressor);
    new RecordDecoder(fields, body, Math.toIntExact(first), Math.toIntExact(end)).decode(into);
  }

  /** Skips the framing of a block; returns where its content ends. */
  private static long framing(AvroCursor cursor, int length) throws IOException {
    long count = cursor.readLong();
    long contentLength = cursor.readLong();
    if (count != 1 || contentLength != length - SYNC_BYTES - cursor.position()) {
      throw new IOException("a block of " + count + " Avro records in " + contentLength + " of " + length + " bytes");
    }
    return cursor.position() + contentLength;
  }

  private static void checkVersion(Block block, int found) {
    Object[] fields = {
      "file", block.file(), "position", block.position(), "version", found, "known", FORMAT_VERSION
    };
    if (found > FORMAT_VERSION) {
      throw new UnsupportedFormatError("a newer oncelog wrote this file; upgrade oncelog", null, fields);
    }
    if (found < 1) {
      throw new CorruptDataError("no version of oncelog writes this", null, fields);
    }
  }

  private static void checkSame(Block block, String what, long expected, long found) {
    if (expected != found) {
      throw new CorruptDataError(
          "a data file does not hold what was written; restore it from a backup",
          null,
          "file", block.file(),
          "position", block.position(),
          "differs", what,
          "expected", expected,
          "found", found);
    }
  }
}
