package io.oncelog.spark.sink;

import java.util.Arrays;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;

/** Records of one partition, by columns, that wait until they fill a block. */
final class Records {
  private static final int FIRST_ROWS = 64;

  final ByteStrings key = new ByteStrings();
  final ByteStrings value = new ByteStrings();
  final ByteStrings headerKeys = new ByteStrings();
  final ByteStrings headerValues = new ByteStrings();
  private long[] timestamps = new long[FIRST_ROWS];
  private long[] headerCounts = new long[FIRST_ROWS];
  private long sizeBytes;
  private final Span header = new Span();

  /**
   * Appends a record.
   *
   * @param headers pairs of a key and a value; null for none
   * @param size what the record counts for
   */
  void add(Span key, Span value, ArrayData headers, long timestampMs, long size) {
    int row = count();
    if (row == timestamps.length) {
      timestamps = Arrays.copyOf(timestamps, 2 * row);
      headerCounts = Arrays.copyOf(headerCounts, 2 * row);
    }
    this.key.add(key);
    this.value.add(value);
    timestamps[row] = timestampMs;
    headerCounts[row] = headers == null ? 0 : headers.numElements();
    for (int at = 0; at < headerCounts[row]; at++) {
      InternalRow pair = headers.getStruct(at, 2);
      headerKeys.add(header.at(pair, 0, true));
      headerValues.add(pair.isNullAt(1) ? null : header.at(pair, 1, false));
    }
    sizeBytes += size;
  }

  void clear() {
    key.clear();
    value.clear();
    headerKeys.clear();
    headerValues.clear();
    sizeBytes = 0;
  }

  int count() {
    return key.count();
  }

  /** What the records count for, uncompressed. */
  long sizeBytes() {
    return sizeBytes;
  }

  long[] timestamps() {
    return timestamps;
  }

  long[] headerCounts() {
    return headerCounts;
  }
}
