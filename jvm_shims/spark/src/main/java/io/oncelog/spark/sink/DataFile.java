package io.oncelog.spark.sink;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/** A new file of the log. Any failure removes it; in Python it is files.LocalOutputFile, with its crash points. */
final class DataFile {
  private final String name;
  private final Path path;
  private final FileChannel channel;
  private long position;

  private DataFile(String name, Path path, FileChannel channel) {
    this.name = name;
    this.path = path;
    this.channel = channel;
  }

  /** Creates the file, and the folders above it. */
  static DataFile create(Path folder, String name) {
    Path path = folder.resolve(name);
    try {
      makeFolder(path.getParent());
      return new DataFile(
          name, path, FileChannel.open(path, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE));
    } catch (IOException problem) {
      throw WriteError.notWritten(name, problem);
    }
  }

  String name() {
    return name;
  }

  /** Bytes written so far. */
  long position() {
    return position;
  }

  void write(ByteBuffer... parts) {
    try {
      for (ByteBuffer part : parts) {
        while (part.hasRemaining()) {
          position += channel.write(part);
        }
      }
    } catch (IOException problem) {
      discard();
      throw WriteError.notWritten(name, problem);
    }
  }

  /** Makes the file durable. After a failed sync nobody knows its bytes, and a second one would not say so. */
  void finish() {
    try {
      channel.force(true);
      channel.close();
      sync(path.getParent());
    } catch (IOException problem) {
      discard();
      throw WriteError.notWritten(name, problem);
    }
  }

  /** Closes and removes the file. If it cannot be removed, it is an orphan, and collection removes it. */
  void discard() {
    try {
      channel.close();
    } catch (IOException ignored) {
      // it is removed
    }
    try {
      Files.deleteIfExists(path);
    } catch (IOException ignored) {
      // an orphan
    }
  }

  /** Another process may have just created the folder, and not synced its name yet: so this does, in any case. */
  private static void makeFolder(Path folder) throws IOException {
    if (!Files.isDirectory(folder.getParent())) {
      makeFolder(folder.getParent());
    }
    try {
      Files.createDirectory(folder);
    } catch (FileAlreadyExistsException made) {
      // by another task
    }
    sync(folder.getParent());
  }

  private static void sync(Path folder) throws IOException {
    try (FileChannel opened = FileChannel.open(folder)) {
      opened.force(true);
    }
  }
}
