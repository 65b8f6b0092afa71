package io.oncelog.kafka.sink;

import java.util.Map;

/** What a streaming write keeps from batch to batch. Spark makes a new write for each batch, and keeps the table. */
public final class SinkState {
  private Long lease;
  private Map<String, String> metrics = Map.of();

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
