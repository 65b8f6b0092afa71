package io.oncelog.spark.sink;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/** Reads the sink's columns from Spark's rows. What a method returns is valid until the next row. */
final class Columns {
  private static final int MISSING = -1;

  private final int key;
  private final int value;
  private final int topic;
  private final int partition;
  private final int timestamp;
  private final int headers;
  private final boolean isKeyText;
  private final boolean isValueText;
  private final DataType partitionType;
  private final Span keySpan = new Span();
  private final Span valueSpan = new Span();

  /**
   * @param schema of the rows; Python has checked it. Other columns are ignored
   */
  Columns(StructType schema) {
    key = position(schema, "key");
    value = position(schema, "value");
    topic = position(schema, "topic");
    partition = position(schema, "partition");
    timestamp = position(schema, "timestamp");
    headers = position(schema, "headers");
    isKeyText = isText(schema, key);
    isValueText = isText(schema, value);
    partitionType = partition == MISSING ? null : schema.fields()[partition].dataType();
  }

  Span key(InternalRow row) {
    return has(row, key) ? keySpan.at(row, key, isKeyText) : null;
  }

  Span value(InternalRow row) {
    return has(row, value) ? valueSpan.at(row, value, isValueText) : null;
  }

  UTF8String topic(InternalRow row) {
    return has(row, topic) ? row.getUTF8String(topic) : null;
  }

  boolean hasPartition(InternalRow row) {
    return has(row, partition);
  }

  int partition(InternalRow row) {
    if (partitionType.equals(DataTypes.IntegerType)) {
      return row.getInt(partition);
    }
    return partitionType.equals(DataTypes.ShortType) ? row.getShort(partition) : row.getByte(partition);
  }

  boolean hasTimestamp(InternalRow row) {
    return has(row, timestamp);
  }

  /** Microseconds since 1970. */
  long timestamp(InternalRow row) {
    return row.getLong(timestamp);
  }

  ArrayData headers(InternalRow row) {
    return has(row, headers) ? row.getArray(headers) : null;
  }

  private static int position(StructType schema, String name) {
    scala.Option<Object> index = schema.getFieldIndex(name);
    return index.isEmpty() ? MISSING : (int) index.get();
  }

  private static boolean isText(StructType schema, int column) {
    return column != MISSING && schema.fields()[column].dataType().equals(DataTypes.StringType);
  }

  private static boolean has(InternalRow row, int column) {
    return column != MISSING && !row.isNullAt(column);
  }
}
