package io.oncelog.spark;

import io.oncelog.spark.blocks.RecordVectors;
import org.apache.spark.sql.execution.vectorized.ConstantColumnVector;
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The columns that a read shows for one partition. They are reused for each block, as Spark allows. A column that is
 * the same for all rows is a constant.
 */
final class SourceColumns {
  /** Kafka's timestamp type for times that the producer set. */
  private static final int CREATE_TIME = 0;

  private static final int FIRST_CAPACITY = 1024;

  private final ColumnarBatch batch;
  private final RecordVectors records;
  private final WritableColumnVector offsets;

  /**
   * @param schema any of the source's columns
   */
  SourceColumns(StructType schema, String topic, int partition) {
    ColumnVector[] columns = new ColumnVector[schema.size()];
    for (int i = 0; i < columns.length; i++) {
      columns[i] = column(schema.fields()[i], topic, partition);
    }
    batch = new ColumnarBatch(columns);
    records =
        new RecordVectors(
            filled(schema, "key"), filled(schema, "value"), filled(schema, "timestamp"), filled(schema, "headers"));
    offsets = filled(schema, "offset");
  }

  ColumnarBatch batch() {
    return batch;
  }

  /** The columns that are read from the records. */
  RecordVectors records() {
    return records;
  }

  /** Completes the batch: {@code count} records, the first of which has {@code firstOffset}. */
  void show(long firstOffset, int count) {
    if (offsets != null) {
      offsets.reserve(count);
      for (int row = 0; row < count; row++) {
        offsets.putLong(row, firstOffset + row);
      }
    }
    batch.setNumRows(count);
  }

  private static ColumnVector column(StructField field, String topic, int partition) {
    ConstantColumnVector constant = new ConstantColumnVector(1, field.dataType());
    switch (field.name()) {
      case "topic" -> constant.setUtf8String(UTF8String.fromString(topic));
      case "partition" -> constant.setInt(partition);
      case "timestampType" -> constant.setInt(CREATE_TIME);
      default -> {
        return new OnHeapColumnVector(FIRST_CAPACITY, field.dataType());
      }
    }
    return constant;
  }

  private WritableColumnVector filled(StructType schema, String name) {
    scala.Option<Object> index = schema.getFieldIndex(name);
    return index.isEmpty() ? null : (WritableColumnVector) batch.column((int) index.get());
  }
}
