package io.oncelog.kafka.source;

import java.time.Duration;
import java.util.Optional;
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
 * <p>Offsets without a record are normal: they were control markers, aborted, or compacted away. If the log no longer
 * has a position, the broker answers with an error, except at the very end of the log. There it returns nothing, and
 * {@link LogState} tells whether to wait.
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
    Silence silence = new Silence(System.nanoTime(), reading.pollTimeoutMs());
    while (consumer.position() < range.end()) {
      long before = consumer.position();
      ConsumerRecord<byte[], byte[]>[] records = poll(silence.untilLook(System.nanoTime()));
      if (records.length > 0) {
        batch = columns.batch(records);
        return true;
      }
      long timeNs = System.nanoTime();
      if (consumer.position() > before) {
        silence = new Silence(timeNs, reading.pollTimeoutMs());
      } else if (silence.isTimeToLook(timeNs)) {
        lookAtLog(silence.isOver(timeNs));
        silence.looked(timeNs, System.nanoTime());
      }
    }
    return false;
  }

  @Override
  public ColumnarBatch get() {
    return batch;
  }

  /** Keeps the consumer for the next range, but only if this range was read to its end. */
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

  private ConsumerRecord<byte[], byte[]>[] poll(Duration timeout) {
    try {
      return consumer.poll(range.end(), timeout);
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
    report(
        "the log no longer has a planned offset",
        "topic", range.topic(),
        "partition", range.partition(),
        "offset", position,
        "log start", bounds[0],
        "log end", bounds[1]);
    consumer.seek(bounds[0] > position ? Math.min(bounds[0], range.end()) : range.end());
  }

  /** Finds out whether the rest of the range may still come. Skips it if not, and fails if the time is up. */
  private void lookAtLog(boolean isLast) {
    LogState log = null;
    try {
      log = LogState.ask(reading.clientSettings(), range.topicPartition());
    } catch (InterruptedException stopped) {
      throw Problems.<RuntimeException>sneak(stopped);
    } catch (Exception problem) {
      LOG.warn(
          "a partition returns no records, and the state of its log cannot be read; partition={}, cause={}",
          range.topicPartition(), Problems.unwrapped(problem).toString());
    }
    Optional<String> loss = log == null ? Optional.empty() : log.loss(range, consumer.position(), isLast);
    if (loss.isPresent()) {
      report(
          loss.get(),
          "topic", range.topic(),
          "partition", range.partition(),
          "offset", consumer.position(),
          "planned end", range.end(),
          "log end", log.end(),
          "id", log.topicId(),
          "id before", range.topicId());
      consumer.seek(range.end());
    } else if (isLast) {
      throw tooLate();
    }
  }

  private void report(String text, Object... fields) {
    if (reading.failOnDataLoss()) {
      throw new DataLossException(text, fields);
    }
    LOG.warn("{}; failOnDataLoss is false: continuing", Problems.message(text, fields));
  }

  private RuntimeException tooLate() {
    return new IllegalStateException(
        Problems.message(
            "no records of a planned range came within kafkaConsumer.pollTimeoutMs; check that executors can reach the "
                + "broker, that the topic still has this partition, and that no open transaction holds the range back",
            "partition", range.topicPartition(),
            "offset", consumer.position(),
            "end", range.end(),
            "timeout", reading.pollTimeoutMs() + " ms"));
  }
}
