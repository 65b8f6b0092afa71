package io.oncelog.spark.sink;

import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Writes the rows of one task attempt into new files; in Python it is writing.TaskWriter. Each row goes to the
 * partition that it names, or to that of its key's hash. Rows without a key go to one partition for each group of rows,
 * in turn.
 */
final class TaskWriter {
  private static final long MICROS_PER_MILLI = 1_000;

  /** Rows that have one default timestamp, and one partition if they have no key: as many as come to Python at once. */
  private static final int GROUP_ROWS = 10_000;

  /** Spark's seed: so {@code hash(key)} in a query is the same number. */
  private static final int SEED = 42;

  /** What a record and a header take in memory in addition to their bytes; the same as in Python's records.py. */
  private static final int RECORD_OVERHEAD_BYTES = 16;

  private static final int HEADER_OVERHEAD_BYTES = 8;

  private final WriteTask task;
  private final Columns columns;
  private final SegmentWriter files;
  private final Map<UTF8String, Topic> topics = new HashMap<>();
  private final List<Pending> pending = new ArrayList<>();
  private final List<Written> written = new ArrayList<>();
  private Records spare = new Records();
  private final Span headerValue = new Span();
  private long bufferedBytes;
  private long rows;
  private long nowMs;
  private int turn = new SecureRandom().nextInt();
  private Topic topic;

  private TaskWriter(WriteTask task, StructType schema) {
    this.task = task;
    columns = new Columns(schema);
    files = new SegmentWriter(task);
    if (task.topic() != null) {
      topic = topic(UTF8String.fromString(task.topic()));
    }
  }

  /**
   * Writes all rows; an error deletes the files.
   *
   * @param schema of the rows
   * @return the blocks, those of each partition in the order of its rows
   */
  static List<Written> write(WriteTask task, StructType schema, Iterator<InternalRow> rows) {
    TaskWriter writer = new TaskWriter(task, schema);
    try {
      while (rows.hasNext()) {
        writer.add(rows.next());
      }
      return writer.finish();
    } catch (Throwable problem) {
      writer.files.discard();
      throw problem;
    }
  }

  private void add(InternalRow row) {
    if (rows % GROUP_ROWS == 0) {
      CrashPoint.TASK_WRITE.reach();
      nowMs = System.currentTimeMillis();
      turn++;
    }
    if (task.topic() == null) {
      topic = topicOf(row);
    }
    Span key = columns.key(row);
    Span value = columns.value(row);
    ArrayData headers = columns.headers(row);
    long size = bytesOf(key) + bytesOf(value) + (headers == null ? 0 : sizeOf(headers));
    if (size > task.limits().record()) {
      throw WriteError.recordTooLarge(rows, size, task.limits().record());
    }
    Pending to = topic.at(numberOf(row, key));
    to.add(key, value, headers, timestampOf(row), size + RECORD_OVERHEAD_BYTES);
    rows++;
  }

  private List<Written> finish() {
    for (Pending some : List.copyOf(pending)) {
      some.flush();
    }
    files.finish();
    return written;
  }

  /** The topic of a row: mostly that of the row before. Its name is copied, because Spark reuses memory. */
  private Topic topicOf(InternalRow row) {
    UTF8String name = columns.topic(row);
    if (name == null) {
      throw WriteError.invalidRecord(
          "a row names no topic; give every row a topic, or set the sink's option topic");
    }
    if (topic != null && topic.nameBytes.equals(name)) {
      return topic;
    }
    Topic known = topics.get(name);
    return known != null ? known : topic(name.clone());
  }

  private Topic topic(UTF8String name) {
    Integer partitions = task.partitions().get(name.toString());
    if (partitions == null) {
      throw WriteError.unknownTopic(name.toString());
    }
    Topic found = new Topic(name, partitions);
    topics.put(name, found);
    return found;
  }

  private int numberOf(InternalRow row, Span key) {
    int count = topic.partitions.length;
    if (columns.hasPartition(row)) {
      int number = columns.partition(row);
      if (number < 0 || number >= count) {
        throw WriteError.unknownPartition(topic.name, number, count);
      }
      return number;
    }
    if (count == 1) {
      return 0;
    }
    return Math.floorMod(key == null ? turn : key.hash(SEED), count);
  }

  private long timestampOf(InternalRow row) {
    if (!columns.hasTimestamp(row)) {
      return nowMs;
    }
    long found = columns.timestamp(row) / MICROS_PER_MILLI;
    if (found < 0 || found > task.limits().timestampMs()) {
      throw WriteError.invalidRecord(
          "a timestamp is before 1970, or later than Spark can read",
          "column", "timestamp_ms",
          "row", rows,
          "found", found,
          "maximum", task.limits().timestampMs());
    }
    return found;
  }

  private long sizeOf(ArrayData headers) {
    long size = 0;
    for (int at = 0; at < headers.numElements(); at++) {
      InternalRow pair = headers.isNullAt(at) ? null : headers.getStruct(at, 2);
      if (pair == null || pair.isNullAt(0)) {
        throw WriteError.invalidRecord("a header has no key", "column", "headers", "row", rows);
      }
      UTF8String key = pair.getUTF8String(0);
      if (!key.isValid()) {
        throw WriteError.invalidRecord(
            "a header's key is not valid text", "column", "headers", "reason", "it is not UTF-8");
      }
      size += key.numBytes() + HEADER_OVERHEAD_BYTES;
      size += pair.isNullAt(1) ? 0 : headerValue.at(pair, 1, false).length();
    }
    return size;
  }

  private static long bytesOf(Span value) {
    return value == null ? 0 : value.length();
  }

  /** A topic that rows name, and the records for its partitions. */
  private final class Topic {
    private final UTF8String nameBytes;
    private final String name;
    private final Pending[] partitions;

    Topic(UTF8String name, int partitions) {
      nameBytes = name;
      this.name = name.toString();
      this.partitions = new Pending[partitions];
    }

    Pending at(int number) {
      if (partitions[number] == null) {
        partitions[number] = new Pending(this, number);
      }
      return partitions[number];
    }
  }

  /** The records of a partition that wait for their block to fill. */
  private final class Pending {
    private final Topic topic;
    private final int partition;
    private Records records; // null if there are none

    Pending(Topic topic, int partition) {
      this.topic = topic;
      this.partition = partition;
    }

    /** Above its limit the buffer shrinks by the records of the fullest partition. */
    void add(Span key, Span value, ArrayData headers, long timestampMs, long size) {
      if (records == null) {
        records = spare == null ? new Records() : spare;
        spare = null;
        pending.add(this);
      }
      records.add(key, value, headers, timestampMs, size);
      bufferedBytes += size;
      if (records.sizeBytes() >= task.limits().block()) {
        flush();
      } else if (bufferedBytes > task.limits().buffer()) {
        pending.stream().max(Comparator.comparingLong(some -> some.records.sizeBytes())).get().flush();
      }
    }

    void flush() {
      written.add(new Written(topic.name, partition, files.append(records)));
      bufferedBytes -= records.sizeBytes();
      pending.remove(this);
      records.clear();
      spare = records;
      records = null;
    }
  }
}
