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
 * A consumer of one partition. It keeps what it polled beyond a range's end, so that the next range goes on without
 * asking the broker again. For one thread at a time.
 */
final class PolledPartition implements AutoCloseable {
  /** Settings for throughput, and against work that nobody sees; a user's own come first. */
  private static final Map<String, String> DEFAULTS =
      Map.of(
          ConsumerConfig.MAX_POLL_RECORDS_CONFIG, "8192", // rows of a columnar batch; Kafka's 500 makes small ones
          ConsumerConfig.MAX_PARTITION_FETCH_BYTES_CONFIG, String.valueOf(4 << 20), // one partition is all there is
          ConsumerConfig.RECEIVE_BUFFER_CONFIG, String.valueOf(1 << 20),
          ConsumerConfig.METRIC_REPORTER_CLASSES_CONFIG, "", // no bean for each consumer
          ConsumerConfig.ENABLE_METRICS_PUSH_CONFIG, "false", // and no subscription at the broker
          ConsumerConfig.ALLOW_AUTO_CREATE_TOPICS_CONFIG, "false"); // a read makes no topic

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
    settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "none"); // where to go on is our decision, never the client's
    consumer =
        Clients.create(
            settings,
            completed -> new KafkaConsumer<>(completed, new ByteArrayDeserializer(), new ByteArrayDeserializer()));
    consumer.assign(Set.of(partition));
  }

  /** The offset that is read next. */
  long position() {
    return position;
  }

  /** Go on at {@code offset}; what was polled already and lies there is kept. */
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
   * The next records below {@code end}, in order. None means only that nothing came within the time or that what came
   * was markers and aborted records: the position tells.
   *
   * @throws org.apache.kafka.clients.consumer.OffsetOutOfRangeException the log does not hold the position
   */
  ConsumerRecord<byte[], byte[]>[] poll(long end, Duration timeout) {
    if (next == polled.length) {
      fetch(timeout);
    }
    int first = next;
    next = firstAtOrAfter(end);
    if (next < polled.length) {
      position = end; // the record at or after the end stays for the next range
    } else {
      position = consumer.position(partition);
    }
    return first == 0 && next == polled.length ? polled : java.util.Arrays.copyOfRange(polled, first, next);
  }

  /** Where the log begins and ends now; the end for this consumer's isolation level. */
  long[] bounds() {
    long begin = consumer.beginningOffsets(Set.of(partition)).get(partition);
    long end = consumer.endOffsets(Set.of(partition)).get(partition);
    return new long[] {begin, end};
  }

  /** Closes without waiting: a plain close at the log's end waits for the fetch that is under way. */
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

  /** The index of the first polled record at or after {@code offset}, from the next one on. */
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
