package io.oncelog.kafka.source;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.Optional;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * What this source keeps in its folder of a query's checkpoint: the initial offsets, so that a crash in the first batch
 * does not move the start, and the ids of the topics, so that a topic that was created again is noticed.
 *
 * <p>Each file is written once and never replaced. Not every file system can replace a file in one step, and a loss by
 * a crash in between would go unnoticed. The file of the initial offsets is the one that Spark's own Kafka source uses.
 */
final class Checkpoint {
  private static final String INITIAL_OFFSETS = "0";
  private static final String VERSION = "v1";

  private final Path folder;
  private final Configuration hadoop;
  private int topicIdFiles; // how many were read or written

  Checkpoint(String location, Configuration hadoop) {
    folder = new Path(location);
    this.hadoop = hadoop;
  }

  Optional<KafkaOffset> initialOffsets() {
    return read(INITIAL_OFFSETS).map(this::parseInitialOffsets);
  }

  /**
   * The first byte is followed by a line with the version, then by JSON. Spark 2.1.0 wrote no version, and its first
   * byte is part of the JSON's length, so it may be anything.
   */
  private KafkaOffset parseInitialOffsets(byte[] bytes) {
    String text = new String(bytes, Math.min(1, bytes.length), Math.max(0, bytes.length - 1), StandardCharsets.UTF_8);
    if (text.startsWith("v")) {
      String[] lines = text.split("\n", 2);
      if (!lines[0].equals(VERSION)) {
        throw new IllegalStateException(
            Problems.message(
                "the checkpoint was written by a newer Kafka source", "file", path(INITIAL_OFFSETS),
                "version", lines[0], "known", VERSION));
      }
      text = lines[lines.length - 1];
    }
    try {
      return Json.parseOffset(text);
    } catch (IllegalArgumentException problem) {
      throw new IllegalStateException(
          Problems.message("the checkpoint's initial offsets are damaged", "file", path(INITIAL_OFFSETS))
              + "; cause: " + problem.getMessage());
    }
  }

  void writeInitialOffsets(KafkaOffset offsets) {
    write(INITIAL_OFFSETS, "\0" + VERSION + "\n" + offsets.json());
  }

  /** The first ids of the query's topics, by name. */
  SortedMap<String, String> topicIds() {
    SortedMap<String, String> ids = new TreeMap<>();
    Optional<byte[]> bytes = read(topicIdFile(topicIdFiles));
    while (bytes.isPresent()) {
      ids.putAll(Json.parseTexts(new String(bytes.get(), StandardCharsets.UTF_8)));
      topicIdFiles++;
      bytes = read(topicIdFile(topicIdFiles));
    }
    return ids;
  }

  /** Adds the ids of topics that are not in {@link #topicIds}. Call that before. */
  void addTopicIds(SortedMap<String, String> ids) {
    write(topicIdFile(topicIdFiles), Json.formatTexts(ids));
    topicIdFiles++;
  }

  private static String topicIdFile(int number) {
    return "oncelog-topic-ids" + (number == 0 ? "" : "-" + number) + ".json";
  }

  private Optional<byte[]> read(String name) {
    try (FSDataInputStream file = fileSystem().open(path(name))) {
      return Optional.of(file.readAllBytes());
    } catch (FileNotFoundException missing) {
      return Optional.empty();
    } catch (IOException problem) {
      throw new UncheckedIOException("the checkpoint cannot be read: " + path(name), problem);
    }
  }

  /** Writes a file whole or not at all; a crash leaves at most a stray temporary file. */
  private void write(String name, String text) {
    Path fresh = path("." + name + "." + UUID.randomUUID() + ".tmp");
    try {
      FileSystem files = fileSystem();
      try (FSDataOutputStream file = files.create(fresh, false)) {
        file.write(text.getBytes(StandardCharsets.UTF_8));
      }
      if (!files.rename(fresh, path(name))) {
        throw new IOException("not renamed from " + fresh);
      }
    } catch (IOException problem) {
      throw new UncheckedIOException("the checkpoint cannot be written: " + path(name), problem);
    }
  }

  private FileSystem fileSystem() throws IOException {
    return folder.getFileSystem(hadoop);
  }

  private Path path(String name) {
    return new Path(folder, name);
  }
}
