package io.oncelog.kafka.source;

import io.oncelog.kafka.Clients;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SortedMap;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A consumer of one partition. It keeps records that it polled beyond a range's end, so that the next range does not
 * fetch them again. For one thread at a time.
 */
final class PolledPartition implements AutoCloseable {
  /** Settings for throughput, and against unnecessary work; the user's settings override them. */
  private static final Map<String, String> DEFAULTS =
      Map.of(
          ConsumerConfig.MAX_POLL_RECORDS_CONFIG, "8192", // rows of a columnar batch; Kafka's default is 500
          ConsumerConfig.MAX_PARTITION_FETCH_BYTES_CONFIG, String.valueOf(4 << 20), // there is only one partition
          ConsumerConfig.RECEIVE_BUFFER_CONFIG, String.valueOf(1 << 20),
          ConsumerConfig.METRIC_REPORTER_CLASSES_CONFIG, "", // no JMX bean for each consumer
          ConsumerConfig.ENABLE_METRICS_PUSH_CONFIG, "false", // no metrics subscription at the broker
          ConsumerConfig.ALLOW_AUTO_CREATE_TOPICS_CONFIG, "false"); // a read creates no topic

  @SuppressWarnings({"unchecked", "rawtypes"})
  static final ConsumerRecord<byte[], byte[]>[] NONE = new ConsumerRecord[0];

  private final TopicPartition partition;
  private final KafkaConsumer<byte[], byte[]> consumer;
  private ConsumerRecord<byte[], byte[]>[] polled = NONE;
  private int next; // index into polled
  private long position = -1;

  PolledPartition(SortedMap<String, String> clientSettings, TopicPartition partition) {
    this.partition = partition;
    Map<String, Object> settings = new HashMap<>(DEFAULTS);
    settings.putAll(clientSettings);
    settings.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, "false");
    settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "none"); // the source decides where to continue
    consumer =
        Clients.create(
            settings,
            completed -> new KafkaConsumer<>(completed, new ByteArrayDeserializer(), new ByteArrayDeserializer()));
    consumer.assign(Set.of(partition));
  }

  /** The next offset to read. */
  long position() {
    return position;
  }

  /** Continues at {@code offset}; keeps the records that were polled if that is the position already. */
  void seek(long offset) {
    if (offset == position) {
      return;
    }
    position = offset;
    polled = NONE;
    next = 0;
    consumer.seek(partition, offset);
  }

  /**
   * The next records below {@code end}, in order. An empty result means that nothing came in time, or only markers and
   * aborted records; in the latter case the position has moved.
   *
   * @throws org.apache.kafka.clients.consumer.OffsetOutOfRangeException the log does not have the position
   */
  ConsumerRecord<byte[], byte[]>[] poll(long end, Duration timeout) {
    if (next == polled.length) {
      fetch(timeout);
    }
    int first = next;
    next = firstAtOrAfter(end);
    if (next < polled.length) {
      position = end; // records at or after the end are kept for the next range
    } else {
      position = consumer.position(partition);
    }
    return first == 0 && next == polled.length ? polled : java.util.Arrays.copyOfRange(polled, first, next);
  }

  /** Where the log begins and ends now; the end is that of this consumer's isolation level. */
  long[] bounds() {
    long begin = consumer.beginningOffsets(Set.of(partition)).get(partition);
    long end = consumer.endOffsets(Set.of(partition)).get(partition);
    return new long[] {begin, end};
  }

  /** Closes without waiting; a plain close at the log's end would wait for the current fetch. */
  @Override
  public void close() {
    boolean isInterrupted = Thread.interrupted();
    try {
      consumer.close(org.apache.kafka.clients.consumer.CloseOptions.timeout(Duration.ZERO));
    } catch (InterruptException stopped) {
      isInterrupted = true;
    } finally {
      if (isInterrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  @SuppressWarnings({"unchecked", "rawtypes"})
  private void fetch(Duration timeout) {
    List<ConsumerRecord<byte[], byte[]>> records = consumer.poll(timeout).records(partition);
    polled = records.toArray(new ConsumerRecord[0]);
    next = 0;
  }

  /** The index of the first record at or after {@code offset} among those not read yet. */
  private int firstAtOrAfter(long offset) {
    int low = next;
    int high = polled.length;
    if (high == low || polled[high - 1].offset() < offset) {
      return high;
    }
    while (low < high) {
      int middle = (low + high) >>> 1;
      if (polled[middle].offset() < offset) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }
}
