package io.oncelog.kafka.source;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.junit.jupiter.api.Test;

class RecordColumnsTest {
  @Test
  void aRecordShowsUnderTheColumnsOfSparksSource() {
    ColumnarBatch batch = batch(record(41, 1_700_000_000_123L, null, bytes("v")));

    assertEquals(1, batch.numRows());
    assertTrue(column(batch, "key").isNullAt(0));
    assertFalse(column(batch, "value").isNullAt(0));
    assertArrayEquals(bytes("v"), column(batch, "value").getBinary(0));
    assertEquals("t", column(batch, "topic").getUTF8String(0).toString());
    assertEquals(3, column(batch, "partition").getInt(0));
    assertEquals(41, column(batch, "offset").getLong(0));
    assertEquals(1_700_000_000_123_000L, column(batch, "timestamp").getLong(0));
    assertEquals(TimestampType.CREATE_TIME.id, column(batch, "timestampType").getInt(0));
  }

  @Test
  void headersOfEachRecordAreItsOwnAndARecordWithoutAnyHasNull() {
    RecordHeaders two = new RecordHeaders();
    two.add("a", bytes("1")).add("b", null);
    RecordHeaders one = new RecordHeaders();
    one.add("c", bytes(""));
    ColumnarBatch batch = batch(record(0, two), record(1, new RecordHeaders()), record(2, one));

    ColumnVector headers = column(batch, "headers");
    assertTrue(headers.isNullAt(1));
    assertEquals(1, headers.numNulls());
    ColumnarArray first = headers.getArray(0);
    assertEquals(2, first.numElements());
    assertEquals("b", first.getStruct(1, 2).getUTF8String(0).toString());
    assertTrue(first.getStruct(1, 2).isNullAt(1));
    assertEquals("c", headers.getArray(2).getStruct(0, 2).getUTF8String(0).toString());
  }

  @Test
  void columnsComeInTheOrderOfTheSchemaThatIsWanted() {
    StructType wanted = new StructType().add("offset", "long").add("key", "binary");
    ColumnarBatch batch = new RecordColumns(wanted, "t", 3).batch(records(record(5, 0, bytes("k"), null)));

    assertEquals(5, batch.column(0).getLong(0));
    assertArrayEquals(bytes("k"), batch.column(1).getBinary(0));
  }

  @Test
  void aTimestampThatSparkCannotHoldIsNamedWithItsRecord() {
    long last = Long.MAX_VALUE / 1_000;
    ColumnVector timestamps = column(batch(record(6, last, null, null), record(7, last + 1, null, null)), "timestamp");

    assertEquals(last * 1_000, timestamps.getLong(0));
    String message = assertThrows(ArithmeticException.class, () -> timestamps.getLong(1)).getMessage();
    assertTrue(message.endsWith("topic=t, partition=3, offset=7, timestamp=" + (last + 1) + " ms"), message);
    assertTrue(message.contains("without the column timestamp"), message);
  }

  private static ColumnVector column(ColumnarBatch batch, String name) {
    return batch.column(RecordColumns.schema(true).fieldIndex(name));
  }

  @SafeVarargs
  private static ColumnarBatch batch(ConsumerRecord<byte[], byte[]>... records) {
    return new RecordColumns(RecordColumns.schema(true), "t", 3).batch(records);
  }

  @SafeVarargs
  private static ConsumerRecord<byte[], byte[]>[] records(ConsumerRecord<byte[], byte[]>... records) {
    return records;
  }

  private static ConsumerRecord<byte[], byte[]> record(long offset, RecordHeaders headers) {
    return record(offset, 0, null, null, headers);
  }

  private static ConsumerRecord<byte[], byte[]> record(long offset, long timestampMs, byte[] key, byte[] value) {
    return record(offset, timestampMs, key, value, new RecordHeaders());
  }

  private static ConsumerRecord<byte[], byte[]> record(
      long offset, long timestampMs, byte[] key, byte[] value, RecordHeaders headers) {
    return new ConsumerRecord<>(
        "t", 3, offset, timestampMs, TimestampType.CREATE_TIME, 0, 0, key, value, headers, Optional.empty());
  }

  private static byte[] bytes(String text) {
    return text.getBytes(java.nio.charset.StandardCharsets.UTF_8);
  }
}
