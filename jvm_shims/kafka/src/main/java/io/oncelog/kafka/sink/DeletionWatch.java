package io.oncelog.kafka.sink;

import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

/**
 * Interrupts a task that waits for the brokers after its topic was deleted: Kafka's client would repeat the requests
 * for {@code max.block.ms} or {@code delivery.timeout.ms}. Closing the client instead does not end the wait.
 *
 * <p>A topic counts as deleted once the brokers have answered for some time that there is none. While they do not
 * answer, or the topic has no leader, the client goes on waiting.
 */
final class DeletionWatch implements AutoCloseable {
  private static final long INTERVAL_MS = 1_000;

  private static final int ABSENCES = 5; // in a row; a broker that has just started may not know a topic yet

  private static final ScheduledExecutorService THREAD =
      Executors.newSingleThreadScheduledExecutor(
          work -> {
            Thread thread = new Thread(work, "oncelog-kafka-deletion-watch");
            thread.setDaemon(true);
            return thread;
          });

  private final TransactionalProducer producer;
  private final String topic;
  private final Thread task = Thread.currentThread();
  private final Future<?> checks;
  private int version; // of the metadata that was checked last
  private int absences;
  private boolean isDeleted;
  private boolean isClosed;

  DeletionWatch(TransactionalProducer producer, String topic) {
    this.producer = producer;
    this.topic = topic;
    this.version = producer.metadataVersion();
    this.checks = THREAD.scheduleWithFixedDelay(this::check, INTERVAL_MS, INTERVAL_MS, TimeUnit.MILLISECONDS);
  }

  /** The reason for a failure: the deletion if that is why the task was interrupted, or else the failure itself. */
  synchronized RuntimeException reasonOf(RuntimeException problem) {
    return isDeleted
        ? new SinkException(SinkException.Kind.UNKNOWN_TOPIC, "Topic " + topic + " does not exist", problem)
        : problem;
  }

  private synchronized void check() {
    int newest = producer.metadataVersion();
    if (newest != version) {
      version = newest;
      absences = producer.isAbsent(topic) ? absences + 1 : 0;
    }
    if (isClosed || isDeleted) {
      return;
    }
    if (absences == ABSENCES) {
      isDeleted = true;
      task.interrupt();
    } else {
      producer.requestMetadata(topic);
    }
  }

  @Override
  public synchronized void close() {
    isClosed = true;
    checks.cancel(false);
    if (isDeleted) {
      Thread.interrupted(); // Spark goes on with the thread
    }
  }
}
