package io.oncelog.kafka.sink;

import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.RecordMetadata;

/**
 * Counts the acknowledged records. All sends of a task share this callback, so no memory is needed per record.
 *
 * <p>Kafka's client calls it from its own thread, and from the sending thread for records that it refuses immediately.
 * Only the client's thread writes the count, and {@code flush} returns after its last call for a batch. Hence the count
 * is complete after {@code flush}.
 */
final class Acknowledgements implements Callback {
  private long count;
  private volatile Exception failure;

  @Override
  public void onCompletion(RecordMetadata metadata, Exception problem) {
    if (problem == null) {
      count++;
    } else if (failure == null) {
      failure = problem;
    }
  }

  long count() {
    return count;
  }

  /** The first failure of a send; null if there was none. */
  Exception failure() {
    return failure;
  }
}
