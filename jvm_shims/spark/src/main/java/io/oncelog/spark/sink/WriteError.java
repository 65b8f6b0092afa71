package io.oncelog.spark.sink;

import io.oncelog.spark.blocks.OncelogError;
import java.io.IOException;
import java.nio.file.FileSystemException;

/** Why a task cannot write: with the name, text and fields of Python's error, which the driver raises. */
final class WriteError extends OncelogError {
  private WriteError(String name, String text, Throwable cause, Object... fields) {
    super(name, text, cause, fields);
  }

  static WriteError invalidRecord(String text, Object... fields) {
    return new WriteError("InvalidRecordError", text, null, fields);
  }

  static WriteError recordTooLarge(long row, long size, long maximum) {
    return new WriteError(
        "RecordTooLargeError",
        "a record is too large; no record of its batch was sent",
        null,
        "row", row,
        "size_bytes", size,
        "maximum", maximum);
  }

  static WriteError unknownTopic(String topic) {
    return new WriteError(
        "UnknownTopicError", "a row names a topic that does not exist; create it first", null, "topic", topic);
  }

  static WriteError unknownPartition(String topic, int partition, int partitions) {
    return new WriteError(
        "UnknownPartitionError",
        "a row names a partition that the topic does not have",
        null,
        "topic", topic,
        "partition", partition,
        "partitions", partitions);
  }

  static WriteError notWritten(String file, IOException problem) {
    boolean isNamed = problem instanceof FileSystemException named && named.getReason() != null;
    return new WriteError(
        "FileWriteError",
        "a file of the log could not be written and was discarded; fix the stated reason, and write the data again",
        problem,
        "file", file,
        "reason", isNamed ? ((FileSystemException) problem).getReason() : problem);
  }
}
