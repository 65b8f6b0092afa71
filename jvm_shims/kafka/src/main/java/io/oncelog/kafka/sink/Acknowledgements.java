package io.oncelog.kafka.sink;

import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.RecordMetadata;

/**
 * Counts what the brokers acknowledged: one callback for all sends of a task, so that nothing is kept for a record.
 *
 * <p>Kafka's client calls it from its own thread, and from the sender's for records it refuses at once. The count is
 * only written by the former; {@code flush} returns after the last call for a batch, hence what is read behind it is
 * complete.
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
