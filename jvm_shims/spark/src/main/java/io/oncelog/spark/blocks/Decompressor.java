package io.oncelog.spark.blocks;

import com.github.luben.zstd.ZstdDecompressCtx;
import com.github.luben.zstd.ZstdException;
import java.io.Closeable;
import java.io.IOException;

/** Decompresses buffers into an array that it reuses: a result is valid until the next call. */
final class Decompressor implements Closeable {
  private final ZstdDecompressCtx zstd = new ZstdDecompressCtx();
  private byte[] result = new byte[0];

  /**
   * Decompresses the bytes, which must give {@code size} bytes.
   *
   * @throws IOException they give anything else
   */
  Bytes decompress(Compression compression, Bytes stored, int size) throws IOException {
    if (result.length < size) {
      result = new byte[size];
    }
    int found = compression == Compression.ZSTD ? zstd(stored, size) : Lz4Frame.decompress(stored, result, size);
    if (found != size) {
      throw new IOException("a buffer of " + found + " bytes that should hold " + size);
    }
    return new Bytes(result, 0, size);
  }

  @Override
  public void close() {
    zstd.close();
  }

  private int zstd(Bytes stored, int size) throws IOException {
    try {
      return zstd.decompressByteArray(result, 0, size, stored.array(), stored.start(), stored.size());
    } catch (ZstdException problem) {
      throw new IOException(problem);
    }
  }
}
