package io.oncelog.spark.blocks;

import java.io.Closeable;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;

/** The data files under a folder. A file stays open until another one is read, because its blocks come in a row. */
final class DataFiles implements Closeable {
  private final Path folder;
  private String name;
  private FileChannel file;

  DataFiles(Path folder) {
    this.folder = folder;
  }

  /** How many bytes of the block the file has. */
  int available(Block block) {
    return reading(block, () -> (int) Math.max(0, Math.min(block.length(), open(block).size() - block.position())));
  }

  /** Fills {@code bytes} from the start of the block, as far as the file goes; returns how many were read. */
  int read(Block block, ByteBuffer bytes) {
    return reading(
        block,
        () -> {
          int found = 0;
          while (bytes.hasRemaining() && found >= 0) {
            found = open(block).read(bytes, block.position() + bytes.position());
          }
          return bytes.position();
        });
  }

  @Override
  public void close() throws IOException {
    if (file != null) {
      file.close();
      file = null;
    }
  }

  private FileChannel open(Block block) throws IOException {
    if (file == null || !block.file().equals(name)) {
      close();
      file = FileChannel.open(folder.resolve(block.file()));
      name = block.file();
    }
    return file;
  }

  private interface Reading {
    int run() throws IOException;
  }

  private static int reading(Block block, Reading step) {
    try {
      return step.run();
    } catch (NoSuchFileException gone) {
      throw new DataLossError(
          "a data file that the index names is gone; restore it from a backup",
          gone,
          "file", block.file(),
          "position", block.position(),
          "records", block.count());
    } catch (IOException problem) {
      throw new FileUnavailableError(
          "a file of the log cannot be read or removed; fix the stated reason, and try again",
          problem,
          "file", block.file(),
          "reason", problem);
    }
  }
}
