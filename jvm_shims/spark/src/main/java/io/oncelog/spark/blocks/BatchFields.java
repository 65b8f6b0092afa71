package io.oncelog.spark.blocks;

import java.io.IOException;

/**
 * The Avro record of a batch, without the version before it and the body after it. Described in data-format.md; in
 * Python it is columns.BATCH_SCHEMA. A column is null if all of its entries are.
 */
record BatchFields(
    int count,
    long minTimestampMs,
    long maxTimestampMs,
    Compression compression,
    Buffer timestamps,
    Binary key,
    Binary value,
    Headers headers) {

  /** Bytes {@code [position, position + length)} of the body; compressed unless {@code length} equals {@code size}. */
  record Buffer(long position, long length, long size) {
    private static Buffer read(AvroCursor from) throws IOException {
      return new Buffer(from.readLong(), from.readLong(), from.readLong());
    }

    private static Buffer readOptional(AvroCursor from) throws IOException {
      return from.readIsPresent() ? read(from) : null;
    }
  }

  /** A column of byte strings. Without validity nothing is null; without lengths all have the same length. */
  record Binary(Buffer validity, Buffer lengths, Buffer values) {
    private static Binary read(AvroCursor from) throws IOException {
      return new Binary(Buffer.readOptional(from), Buffer.readOptional(from), Buffer.read(from));
    }

    private static Binary readOptional(AvroCursor from) throws IOException {
      return from.readIsPresent() ? read(from) : null;
    }
  }

  /** A column of lists of headers, with the keys and values of all lists one after another. */
  record Headers(Buffer validity, Buffer lengths, Binary keys, Binary values) {
    private static Headers readOptional(AvroCursor from) throws IOException {
      return from.readIsPresent()
          ? new Headers(Buffer.readOptional(from), Buffer.read(from), Binary.read(from), Binary.readOptional(from))
          : null;
    }
  }

  static BatchFields read(AvroCursor from) throws IOException {
    return new BatchFields(
        from.readInt(),
        from.readLong(),
        from.readLong(),
        Compression.of(from.readInt()),
        Buffer.readOptional(from),
        Binary.readOptional(from),
        Binary.readOptional(from),
        Headers.readOptional(from));
  }
}
