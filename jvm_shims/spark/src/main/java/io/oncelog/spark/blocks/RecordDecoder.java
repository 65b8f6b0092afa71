package io.oncelog.spark.blocks;

import io.oncelog.spark.blocks.BatchFields.Binary;
import io.oncelog.spark.blocks.BatchFields.Buffer;
import io.oncelog.spark.blocks.BatchFields.Headers;
import java.io.IOException;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;

/**
 * Decodes some rows of a batch into Spark's columns. The bytes of values are copied once, all together, because Spark's
 * columns store them as the block does: one after another, with offsets and lengths.
 */
final class RecordDecoder {
  private static final long MICROS_PER_MILLI = 1_000;

  private final BatchFields fields;
  private final Body body;
  private final int first;
  private final int end;

  /** A decoder of the rows {@code [first, end)}. */
  RecordDecoder(BatchFields fields, Body body, int first, int end) {
    this.fields = fields;
    this.body = body;
    this.first = first;
    this.end = end;
  }

  void decode(RecordVectors into) throws IOException {
    if (into.key() != null) {
      binary(fields.key(), fields.count(), first, end, into.key());
    }
    if (into.value() != null) {
      binary(fields.value(), fields.count(), first, end, into.value());
    }
    if (into.timestamp() != null) {
      timestamps(into.timestamp());
    }
    if (into.headers() != null) {
      headers(fields.headers(), into.headers());
    }
  }

  private void timestamps(WritableColumnVector to) throws IOException {
    long lowest = fields.minTimestampMs();
    Integers beyond =
        fields.timestamps() == null ? Integers.same(0) : body.integers(fields.timestamps(), fields.count());
    prepare(to, end - first);
    for (int row = first; row < end; row++) {
      to.putLong(row - first, Math.multiplyExact(lowest + beyond.get(row), MICROS_PER_MILLI));
    }
  }

  private void binary(Binary column, int count, int from, int until, WritableColumnVector to) throws IOException {
    prepare(to, until - from);
    if (column == null) {
      to.putNulls(0, until - from);
      return;
    }
    Integers lengths = body.lengths(column, count);
    int start = (int) lengths.sum(0, from);
    int size = entries(lengths, from, until, to);
    Bytes values = body.get(column.values());
    prepare(to.arrayData(), size);
    to.arrayData().putBytes(0, size, values.array(), values.start() + start);
    nulls(column.validity(), count, from, until, to);
  }

  /** A record without headers is null, as in Spark's Kafka source. */
  private void headers(Headers column, WritableColumnVector to) throws IOException {
    prepare(to, end - first);
    if (column == null) {
      to.putNulls(0, end - first);
      return;
    }
    Integers lengths = body.lengths(column.lengths(), fields.count());
    long total = lengths.sum(0, fields.count());
    if (total > BlockReader.MAX_ENTRIES) {
      throw new IOException("a column of " + total + " headers");
    }
    int start = (int) lengths.sum(0, first);
    int count = entries(lengths, first, end, to);
    for (int row = first; row < end; row++) {
      if (lengths.get(row) == 0) {
        to.putNull(row - first);
      }
    }
    nulls(column.validity(), fields.count(), first, end, to);
    WritableColumnVector headers = to.arrayData();
    prepare(headers, count);
    binary(column.keys(), (int) total, start, start + count, headers.getChild(0));
    binary(column.values(), (int) total, start, start + count, headers.getChild(1));
  }

  /** Sets where the entries of each row are, beginning at 0; returns how many there are. */
  private static int entries(Integers lengths, int from, int until, WritableColumnVector to) {
    int position = 0;
    for (int row = from; row < until; row++) {
      int length = (int) lengths.get(row);
      to.putArray(row - from, position, length);
      position += length;
    }
    return position;
  }

  private void nulls(Buffer validity, int count, int from, int until, WritableColumnVector to) throws IOException {
    if (validity == null) {
      return;
    }
    Bytes bitmap = body.bitmap(validity, count);
    for (int row = from; row < until; row++) {
      boolean isValid = (bitmap.array()[bitmap.start() + row / 8] >> row % 8 & 1) == 1;
      if (!isValid && !to.isNullAt(row - from)) {
        to.putNull(row - from);
      }
    }
  }

  private static void prepare(WritableColumnVector column, int count) {
    column.reset();
    column.reserve(count);
  }
}
