package io.oncelog.kafka.sink;

import java.util.Arrays;
import java.util.List;
import java.util.Set;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.types.UTF8String;

/** Turns Spark's rows into Kafka's records. One for each task; not thread-safe. */
final class Rows {
  private final String fixedTopic;
  private final int value;
  private final int key;
  private final int topic;
  private final int partition;
  private final int headers;
  private final boolean isKeyText;
  private final boolean isValueText;
  private final DataType partitionType;
  private final Set<String> ledgerTopics;

  private UTF8String lastTopicBytes;
  private String lastTopic;

  Rows(SinkSettings settings) {
    List<String> columns = Arrays.stream(settings.columns()).map(SinkSettings.Column::name).toList();
    fixedTopic = settings.topic();
    ledgerTopics = settings.ledgerTopics();
    value = columns.indexOf("value");
    key = columns.indexOf("key");
    topic = fixedTopic == null ? columns.indexOf("topic") : -1;
    partition = columns.indexOf("partition");
    headers = columns.indexOf("headers");
    isKeyText = isText(settings, key);
    isValueText = isText(settings, value);
    partitionType = partition < 0 ? null : DataType.fromDDL(settings.columns()[partition].type());
  }

  private static boolean isText(SinkSettings settings, int column) {
    return column >= 0 && settings.columns()[column].type().equals("string");
  }

  ProducerRecord<byte[], byte[]> toRecord(InternalRow row) {
    return new ProducerRecord<>(
        topic < 0 ? fixedTopic : topicOf(row),
        partition < 0 || row.isNullAt(partition) ? null : partitionOf(row),
        null,
        key < 0 || row.isNullAt(key) ? null : bytesOf(row, key, isKeyText),
        row.isNullAt(value) ? null : bytesOf(row, value, isValueText),
        headers < 0 || row.isNullAt(headers) ? null : headersOf(row.getArray(headers)));
  }

  private static byte[] bytesOf(InternalRow row, int column, boolean isText) {
    return isText ? row.getUTF8String(column).getBytes() : row.getBinary(column);
  }

  private int partitionOf(InternalRow row) {
    int number = ((Number) row.get(partition, partitionType)).intValue();
    if (number < 0) {
      throw new SinkException(SinkException.Kind.UNKNOWN_PARTITION, "a row names partition " + number);
    }
    return number;
  }

  /** The topic of a row; kept, because the next row usually has the same, and copied, because Spark reuses memory. */
  private String topicOf(InternalRow row) {
    if (row.isNullAt(topic)) {
      throw new SinkException(
          SinkException.Kind.INVALID_ROW,
          "a row names no topic; give every row a topic, or set the sink's option topic");
    }
    UTF8String bytes = row.getUTF8String(topic);
    if (!bytes.equals(lastTopicBytes)) {
      String name = bytes.toString();
      if (ledgerTopics.contains(name)) {
        throw new SinkException(
            SinkException.Kind.INVALID_ROW,
            "a row names the topic " + name + ", which keeps the ledger of sinks and takes no rows; leave such rows "
                + "out, or give them another topic");
      }
      lastTopicBytes = bytes.clone();
      lastTopic = name;
    }
    return lastTopic;
  }

  private static Iterable<Header> headersOf(ArrayData array) {
    Header[] found = new Header[array.numElements()];
    for (int at = 0; at < found.length; at++) {
      if (array.isNullAt(at) || array.getStruct(at, 2).isNullAt(0)) {
        throw new SinkException(SinkException.Kind.INVALID_ROW, "a header of a row is null or has no key");
      }
      InternalRow pair = array.getStruct(at, 2);
      found[at] = new RecordHeader(pair.getUTF8String(0).toString(), pair.isNullAt(1) ? null : pair.getBinary(1));
    }
    return Arrays.asList(found);
  }
}
