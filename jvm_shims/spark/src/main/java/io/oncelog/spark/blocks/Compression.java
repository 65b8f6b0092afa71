package io.oncelog.spark.blocks;

import java.io.IOException;

/** How the buffers of a body are compressed, by the order of the Avro enumeration. */
enum Compression {
  NULL,
  LZ4,
  ZSTD;

  static Compression of(int symbol) throws IOException {
    if (symbol < 0 || symbol >= values().length) {
      throw new IOException("symbol " + symbol + " of " + values().length);
    }
    return values()[symbol];
  }
}
