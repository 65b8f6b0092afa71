package io.oncelog.kafka.sink;

import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;

/**
 * Counts the acknowledged records, and notes their offsets. All sends of a task share this callback, so no memory is
 * needed per record.
 *
 * <p>Kafka's client calls it from its own thread, and from the sending thread for records that it refuses immediately.
 * Only the client's thread writes the count and the offsets, and {@code flush} returns after its last call for a batch.
 * Hence they are complete after {@code flush}.
 */
final class Acknowledgements implements Callback {
  private final OffsetRanges offsetRanges;
  private long count;
  private long bytes;
  private volatile UnsentException failure;

  /**
   * @param offsetRanges gets the offsets
   */
  Acknowledgements(OffsetRanges offsetRanges) {
    this.offsetRanges = offsetRanges;
  }

  @Override
  public void onCompletion(RecordMetadata metadata, Exception problem) {
    if (problem == null && metadata.hasOffset()) {
      count++;
      bytes += Math.max(metadata.serializedKeySize(), 0) + Math.max(metadata.serializedValueSize(), 0);
      offsetRanges.add(metadata.topic(), metadata.partition(), metadata.offset());
    } else if (failure == null) {
      Exception cause = problem != null ? problem : new KafkaException("a record was acknowledged without its offset");
      failure = new UnsentException(metadata, cause);
    }
  }

  long count() {
    return count;
  }

  /** How much of the client's buffer the records filled at most; a batch takes its full size from the start. */
  long bufferedBytes(long batchSize) {
    long partitions = offsetRanges.topics().stream().mapToLong(topic -> topic.partitions().size()).sum();
    return Math.max(partitions, 1) * batchSize + bytes;
  }

  OffsetRanges offsetRanges() {
    return offsetRanges;
  }

  /** The first failure of a send; null if there was none. */
  UnsentException failure() {
    return failure;
  }
}
