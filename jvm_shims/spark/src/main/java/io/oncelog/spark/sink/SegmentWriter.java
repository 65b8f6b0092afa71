package io.oncelog.spark.sink;

import io.oncelog.spark.blocks.Block;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;

/**
 * Writes blocks of any partitions into new data files. No file is created before the first block, and no block may be
 * used before {@link #finish}.
 */
final class SegmentWriter {
  private static final int SYNC_BYTES = 16;
  private static final SecureRandom RANDOM = new SecureRandom();

  private final WriteTask task;
  private final BlockEncoder encoder;
  private final List<DataFile> files = new ArrayList<>();
  private DataFile current;
  private byte[] syncMarker;

  SegmentWriter(WriteTask task) {
    this.task = task;
    encoder = new BlockEncoder(task);
  }

  Block append(Records records) {
    if (current == null) {
      begin();
    }
    long position = current.position();
    BlockEncoder.Encoded encoded = encoder.encode(records, syncMarker);
    current.write(encoded.parts());
    Block block =
        new Block(
            current.name(),
            position,
            encoded.length(),
            encoded.crc32(),
            encoded.count(),
            encoded.minTimestampMs(),
            encoded.maxTimestampMs());
    if (current.position() >= task.limits().file()) {
      finishFile();
    }
    return block;
  }

  /** Makes every file durable. */
  void finish() {
    if (current != null) {
      finishFile();
    }
    encoder.close();
  }

  /** Removes all files, including finished ones. */
  void discard() {
    files.forEach(DataFile::discard);
    encoder.close();
  }

  private void begin() {
    String name = task.prefix() + UUID.randomUUID().toString().replace("-", "") + ".avro";
    current = DataFile.create(Path.of(task.folder()), name);
    files.add(current);
    syncMarker = new byte[SYNC_BYTES];
    RANDOM.nextBytes(syncMarker);
    current.write(ByteBuffer.wrap(task.header()), ByteBuffer.wrap(syncMarker));
  }

  private void finishFile() {
    CrashPoint.FILE_FINISH.reach();
    current.finish();
    CrashPoint.FILE_FINISHED.reach();
    current = null;
  }
}
