package io.oncelog.spark.sink;

import com.github.luben.zstd.Zstd;
import com.github.luben.zstd.ZstdCompressCtx;
import java.io.ByteArrayOutputStream;
import java.io.Closeable;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Arrays;
import net.jpountz.lz4.LZ4FrameOutputStream;

/** Appends buffers to the body of a block, each compressed if that makes it smaller. */
final class Compressor implements Closeable {
  private final String codec;
  private final ZstdCompressCtx zstd = new ZstdCompressCtx();
  private byte[] body = new byte[0];
  private int size;

  /**
   * @param level of compression with zstd
   */
  Compressor(String codec, int level) {
    this.codec = codec;
    zstd.setLevel(level);
  }

  /** Appends {@code raw[0, length)}; returns how many bytes it takes. */
  int append(byte[] raw, int length) {
    int stored = length == 0 ? 0 : compressed(raw, length);
    if (stored >= length) {
      reserve(length);
      System.arraycopy(raw, 0, body, size, length);
      stored = length;
    }
    size += stored;
    return stored;
  }

  void clear() {
    size = 0;
  }

  byte[] body() {
    return body;
  }

  int size() {
    return size;
  }

  @Override
  public void close() {
    zstd.close();
  }

  /** Writes a frame behind the body; returns its length, or {@code length} if it is not compressed. */
  private int compressed(byte[] raw, int length) {
    switch (codec) {
      case "zstd":
        reserve((int) Zstd.compressBound(length));
        return zstd.compressByteArray(body, size, body.length - size, raw, 0, length);
      case "lz4":
        byte[] frame = lz4(raw, length);
        reserve(frame.length);
        System.arraycopy(frame, 0, body, size, frame.length);
        return frame.length;
      default:
        return length;
    }
  }

  private static byte[] lz4(byte[] raw, int length) {
    ByteArrayOutputStream frame = new ByteArrayOutputStream(length / 2);
    try (LZ4FrameOutputStream output =
        new LZ4FrameOutputStream(
            frame,
            LZ4FrameOutputStream.BLOCKSIZE.SIZE_64KB,
            LZ4FrameOutputStream.FLG.Bits.BLOCK_INDEPENDENCE)) {
      output.write(raw, 0, length);
    } catch (IOException impossible) {
      throw new UncheckedIOException(impossible);
    }
    return frame.toByteArray();
  }

  private void reserve(int more) {
    if (more > body.length - size) {
      body = Arrays.copyOf(body, Math.max(2 * body.length, size + more));
    }
  }
}
