package io.oncelog.kafka.source;

import java.time.Duration;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Reads one range of a partition.
 *
 * <p>Offsets without a record are nothing to wonder at: they were control markers, aborted, or compacted away. Only a
 * log that does not hold the position any more has lost something, and then the broker says so.
 */
final class RangeReader implements PartitionReader<ColumnarBatch> {
  private static final Logger LOG = LoggerFactory.getLogger(RangeReader.class);

  private final OffsetRange range;
  private final SourceOptions.Reading reading;
  private final RecordColumns columns;
  private PolledPartition consumer;
  private ColumnarBatch batch;

  RangeReader(OffsetRange range, SourceOptions.Reading reading, StructType schema) {
    this.range = range;
    this.reading = reading;
    columns = new RecordColumns(schema, range.topic(), range.partition());
    consumer = ConsumerCache.get().take(reading.clientSettings(), range);
  }

  @Override
  public boolean next() {
    long deadlineNs = nextDeadlineNs();
    while (consumer.position() < range.end()) {
      long before = consumer.position();
      ConsumerRecord<byte[], byte[]>[] records = poll(deadlineNs);
      if (records.length > 0) {
        batch = columns.batch(records);
        return true;
      }
      if (consumer.position() > before) {
        deadlineNs = nextDeadlineNs();
      } else if (System.nanoTime() > deadlineNs) {
        throw tooLate();
      }
    }
    return false;
  }

  @Override
  public ColumnarBatch get() {
    return batch;
  }

  /** Keeps the consumer for the next range if this one was read to its end; a half-read one may be in any state. */
  @Override
  public void close() {
    PolledPartition used = consumer;
    consumer = null;
    if (used == null) {
      return;
    }
    if (used.position() >= range.end()) {
      ConsumerCache.get().give(reading.clientSettings(), range, used);
    } else {
      used.close();
    }
  }

  private ConsumerRecord<byte[], byte[]>[] poll(long deadlineNs) {
    try {
      return consumer.poll(range.end(), Duration.ofNanos(Math.max(0, deadlineNs - System.nanoTime())));
    } catch (OffsetOutOfRangeException lost) {
      goOnAfterLoss();
      return PolledPartition.NONE;
    } catch (InterruptException stopped) {
      throw stopped;
    } catch (KafkaException problem) {
      throw Problems.cluster(
          "a partition cannot be read", problem, "partition", range.topicPartition(), "offset", consumer.position());
    }
  }

  private void goOnAfterLoss() {
    long position = consumer.position();
    long[] bounds = consumer.bounds();
    Object[] fields = {
      "topic", range.topic(), "partition", range.partition(), "offset", position,
      "log start", bounds[0], "log end", bounds[1]
    };
    String text = "the log does not hold a planned offset any more";
    if (reading.failOnDataLoss()) {
      throw new DataLossException(text, fields);
    }
    LOG.warn("{}; failOnDataLoss is false: going on", Problems.message(text, fields));
    consumer.seek(bounds[0] > position ? Math.min(bounds[0], range.end()) : range.end());
  }

  private RuntimeException tooLate() {
    return new IllegalStateException(
        Problems.message(
            "the broker gave nothing of a planned range within kafkaConsumer.pollTimeoutMs; is it reachable from "
                + "executors, does the topic still have this partition, or is its end behind an open transaction?",
            "partition", range.topicPartition(),
            "offset", consumer.position(),
            "end", range.end(),
            "timeout", reading.pollTimeoutMs() + " ms"));
  }

  private long nextDeadlineNs() {
    return System.nanoTime() + reading.pollTimeoutMs() * 1_000_000;
  }
}
