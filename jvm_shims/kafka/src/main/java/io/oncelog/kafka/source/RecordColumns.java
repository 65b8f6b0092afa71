package io.oncelog.kafka.source;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.execution.vectorized.ConstantColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Shows records of one partition as Spark's columns. A column reads from the records when Spark asks for a value, so
 * nothing is copied, and a value that is not used costs nothing.
 */
final class RecordColumns {
  static final String KEY = "key";
  static final String VALUE = "value";
  static final String TOPIC = "topic";
  static final String PARTITION = "partition";
  static final String OFFSET = "offset";
  static final String TIMESTAMP = "timestamp";
  static final String TIMESTAMP_TYPE = "timestampType";
  static final String HEADERS = "headers";

  private static final long MICROS_OF_MS = 1_000; // Spark counts microseconds

  private static final StructType HEADER =
      new StructType().add(KEY, DataTypes.StringType).add(VALUE, DataTypes.BinaryType);

  private final StructType schema;
  private final UTF8String topic;
  private final int partition;

  /**
   * @param schema the wanted columns, in order
   */
  RecordColumns(StructType schema, String topic, int partition) {
    this.schema = schema;
    this.topic = UTF8String.fromString(topic);
    this.partition = partition;
  }

  /** The columns of Spark's Kafka source. Those that are never null are declared so, which saves Spark the checks. */
  static StructType schema(boolean includeHeaders) {
    StructType schema =
        new StructType()
            .add(KEY, DataTypes.BinaryType)
            .add(VALUE, DataTypes.BinaryType)
            .add(TOPIC, DataTypes.StringType, false)
            .add(PARTITION, DataTypes.IntegerType, false)
            .add(OFFSET, DataTypes.LongType, false)
            .add(TIMESTAMP, DataTypes.TimestampType, false)
            .add(TIMESTAMP_TYPE, DataTypes.IntegerType, false);
    return includeHeaders ? schema.add(HEADERS, DataTypes.createArrayType(HEADER)) : schema;
  }

  /** The records as rows; {@code records} belongs to the batch from here on. */
  ColumnarBatch batch(ConsumerRecord<byte[], byte[]>[] records) {
    ColumnVector[] columns = new ColumnVector[schema.size()];
    for (int i = 0; i < columns.length; i++) {
      columns[i] = column(schema.fields()[i], records);
    }
    return new ColumnarBatch(columns, records.length);
  }

  private ColumnVector column(StructField field, ConsumerRecord<byte[], byte[]>[] records) {
    return switch (field.name()) {
      case KEY -> new Keys(records);
      case VALUE -> new Values(records);
      case TOPIC -> {
        ConstantColumnVector constant = new ConstantColumnVector(records.length, field.dataType());
        constant.setUtf8String(topic);
        yield constant;
      }
      case PARTITION -> {
        ConstantColumnVector constant = new ConstantColumnVector(records.length, field.dataType());
        constant.setInt(partition);
        yield constant;
      }
      case OFFSET -> new Offsets(records);
      case TIMESTAMP -> new Timestamps(records);
      case TIMESTAMP_TYPE -> new TimestampTypes(records);
      case HEADERS -> new Headers(records);
      default -> throw new IllegalArgumentException("no column of this source: " + field.name());
    };
  }

  /** A column with values of one type only, and nothing to free. */
  private abstract static class Column extends ColumnVector {
    Column(DataType type) {
      super(type);
    }

    @Override
    public void close() {}

    @Override
    public boolean hasNull() {
      return numNulls() > 0;
    }

    @Override
    public int numNulls() {
      return 0;
    }

    @Override
    public boolean isNullAt(int row) {
      return false;
    }

    @Override
    public int getInt(int row) {
      throw wrongType();
    }

    @Override
    public long getLong(int row) {
      throw wrongType();
    }

    @Override
    public byte[] getBinary(int row) {
      throw wrongType();
    }

    @Override
    public UTF8String getUTF8String(int row) {
      throw wrongType();
    }

    @Override
    public ColumnarArray getArray(int row) {
      throw wrongType();
    }

    @Override
    public ColumnVector getChild(int ordinal) {
      throw wrongType();
    }

    @Override
    public final boolean getBoolean(int row) {
      throw wrongType();
    }

    @Override
    public final byte getByte(int row) {
      throw wrongType();
    }

    @Override
    public final short getShort(int row) {
      throw wrongType();
    }

    @Override
    public final float getFloat(int row) {
      throw wrongType();
    }

    @Override
    public final double getDouble(int row) {
      throw wrongType();
    }

    @Override
    public final org.apache.spark.sql.types.Decimal getDecimal(int row, int precision, int scale) {
      throw wrongType();
    }

    @Override
    public final org.apache.spark.sql.vectorized.ColumnarMap getMap(int row) {
      throw wrongType();
    }

    private UnsupportedOperationException wrongType() {
      return new UnsupportedOperationException("a column of type " + type.simpleString());
    }
  }

  private static final class Keys extends Column {
    private final ConsumerRecord<byte[], byte[]>[] records;

    Keys(ConsumerRecord<byte[], byte[]>[] records) {
      super(DataTypes.BinaryType);
      this.records = records;
    }

    @Override
    public int numNulls() {
      int count = 0;
      for (ConsumerRecord<byte[], byte[]> each : records) {
        count += each.key() == null ? 1 : 0;
      }
      return count;
    }

    @Override
    public boolean hasNull() {
      return true; // counting would cost more than the null checks
    }

    @Override
    public boolean isNullAt(int row) {
      return records[row].key() == null;
    }

    @Override
    public byte[] getBinary(int row) {
      return records[row].key();
    }
  }

  private static final class Values extends Column {
    private final ConsumerRecord<byte[], byte[]>[] records;

    Values(ConsumerRecord<byte[], byte[]>[] records) {
      super(DataTypes.BinaryType);
      this.records = records;
    }

    @Override
    public int numNulls() {
      int count = 0;
      for (ConsumerRecord<byte[], byte[]> each : records) {
        count += each.value() == null ? 1 : 0;
      }
      return count;
    }

    @Override
    public boolean hasNull() {
      return true;
    }

    @Override
    public boolean isNullAt(int row) {
      return records[row].value() == null;
    }

    @Override
    public byte[] getBinary(int row) {
      return records[row].value();
    }
  }

  private static final class Offsets extends Column {
    private final ConsumerRecord<byte[], byte[]>[] records;

    Offsets(ConsumerRecord<byte[], byte[]>[] records) {
      super(DataTypes.LongType);
      this.records = records;
    }

    @Override
    public long getLong(int row) {
      return records[row].offset();
    }
  }

  private static final class Timestamps extends Column {
    private final ConsumerRecord<byte[], byte[]>[] records;

    Timestamps(ConsumerRecord<byte[], byte[]>[] records) {
      super(DataTypes.TimestampType);
      this.records = records;
    }

    private static ArithmeticException tooFar(ConsumerRecord<byte[], byte[]> record) {
      return new ArithmeticException(
          Problems.message(
              "the timestamp of a record is beyond Spark's range, microseconds in 64 bits; read without the column "
                  + "timestamp, start after the record, or delete the partition's records up to it",
              "topic", record.topic(),
              "partition", record.partition(),
              "offset", record.offset(),
              "timestamp", record.timestamp() + " ms"));
    }

    @Override
    public long getLong(int row) {
      long timestampMs = records[row].timestamp();
      if (timestampMs > Long.MAX_VALUE / MICROS_OF_MS || timestampMs < Long.MIN_VALUE / MICROS_OF_MS) {
        throw tooFar(records[row]);
      }
      return timestampMs * MICROS_OF_MS;
    }
  }

  private static final class TimestampTypes extends Column {
    private final ConsumerRecord<byte[], byte[]>[] records;

    TimestampTypes(ConsumerRecord<byte[], byte[]>[] records) {
      super(DataTypes.IntegerType);
      this.records = records;
    }

    @Override
    public int getInt(int row) {
      return records[row].timestampType().id;
    }
  }

  /** Headers of all records in two flat columns, built when Spark first asks; null for a record without headers. */
  private static final class Headers extends Column {
    private final ConsumerRecord<byte[], byte[]>[] records;
    private HeaderStructs flat;
    private int[] ends;

    Headers(ConsumerRecord<byte[], byte[]>[] records) {
      super(DataTypes.createArrayType(HEADER));
      this.records = records;
    }

    @Override
    public int numNulls() {
      int count = 0;
      for (int row = 0; row < records.length; row++) {
        count += isNullAt(row) ? 1 : 0;
      }
      return count;
    }

    @Override
    public boolean hasNull() {
      return true;
    }

    @Override
    public boolean isNullAt(int row) {
      return !records[row].headers().iterator().hasNext();
    }

    @Override
    public ColumnarArray getArray(int row) {
      if (flat == null) {
        layOut();
      }
      int start = row == 0 ? 0 : ends[row - 1];
      return new ColumnarArray(flat, start, ends[row] - start);
    }

    private void layOut() {
      java.util.List<Header> all = new java.util.ArrayList<>();
      ends = new int[records.length];
      for (int row = 0; row < records.length; row++) {
        records[row].headers().forEach(all::add);
        ends[row] = all.size();
      }
      flat = new HeaderStructs(all.toArray(new Header[0]));
    }
  }

  private static final class HeaderStructs extends Column {
    private final Column[] children;

    HeaderStructs(Header[] headers) {
      super(HEADER);
      children = new Column[] {new HeaderKeys(headers), new HeaderValues(headers)};
    }

    @Override
    public ColumnVector getChild(int ordinal) {
      return children[ordinal];
    }
  }

  private static final class HeaderKeys extends Column {
    private final Header[] headers;

    HeaderKeys(Header[] headers) {
      super(DataTypes.StringType);
      this.headers = headers;
    }

    @Override
    public UTF8String getUTF8String(int row) {
      return UTF8String.fromString(headers[row].key());
    }
  }

  private static final class HeaderValues extends Column {
    private final Header[] headers;

    HeaderValues(Header[] headers) {
      super(DataTypes.BinaryType);
      this.headers = headers;
    }

    @Override
    public boolean hasNull() {
      return true;
    }

    @Override
    public boolean isNullAt(int row) {
      return headers[row].value() == null;
    }

    @Override
    public byte[] getBinary(int row) {
      return headers[row].value();
    }
  }
}
