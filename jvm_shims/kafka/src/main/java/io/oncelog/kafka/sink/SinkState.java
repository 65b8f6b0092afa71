package io.oncelog.kafka.sink;

import io.oncelog.kafka.KafkaProvider;
import java.io.UncheckedIOException;
import java.nio.channels.ClosedByInterruptException;
import java.util.Map;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** What a streaming write keeps from batch to batch. Spark makes a new write for each batch, and keeps the table. */
public final class SinkState {
  private final Thread warmUp;
  private Long lease;
  private Map<String, String> metrics = Map.of();

  private SinkState(Thread warmUp) {
    this.warmUp = warmUp;
  }

  /**
   * The state of a table that may be one of a write. Where the options are those of a stream's write, Python is started
   * beside Spark's own first steps: a process of its own, with what it imports, takes a second.
   */
  public static SinkState of(Map<String, String> options) {
    Thread warmUp = null;
    if (new CaseInsensitiveStringMap(options).containsKey("checkpointLocation")) {
      PythonSteps python = new PythonSteps(new StructType(), options);
      warmUp = new Thread(() -> python.warmUp(), KafkaProvider.NAME + "-warm-up");
      warmUp.setDaemon(true);
      warmUp.start();
    }
    return new SinkState(warmUp);
  }

  /** Wait for the process that was started beforehand: another one would start as slowly. */
  void awaitWarmUp() {
    try {
      if (warmUp != null) {
        warmUp.join();
      }
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
      throw new UncheckedIOException(new ClosedByInterruptException()); // by which Spark knows its own stop()
    }
  }

  /** The lease of the run's batches before; null to begin one, as whatever fails on its way makes the next do. */
  synchronized Long takeLease() {
    Long held = lease;
    lease = null;
    return held;
  }

  synchronized void batchIsDone(Long lease, Map<String, String> metrics) {
    this.lease = lease;
    this.metrics = metrics;
  }

  /** What the last batch's report says, by the names of its fields. */
  public synchronized Map<String, String> metrics() {
    return metrics;
  }
}
