package io.oncelog.kafka.sink;

import com.fasterxml.jackson.databind.JsonNode;
import io.oncelog.kafka.KafkaProvider;
import io.oncelog.kafka.PythonSteps;
import java.io.UncheckedIOException;
import java.nio.channels.ClosedByInterruptException;
import java.util.Map;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** What a streaming write keeps between batches. Spark creates a new write for each batch, but keeps the table. */
public final class SinkState {
  private Thread warmUp; // null if nothing is prepared in advance
  private volatile RuntimeException refusal; // of the preparation
  private JsonNode lease;
  private Map<String, String> metrics = Map.of();


  /**
   * The state of a table, which may be one of a write. If the options are those of a streaming write, this starts
   * Python in the background while Spark starts the query, because the process and its imports take a second.
   */
  public static SinkState of(Map<String, String> options) {
    SinkState state = new SinkState();
    if (new CaseInsensitiveStringMap(options).containsKey("checkpointLocation")) {
      PythonSteps python = new PythonSteps(new StructType(), options);
      state.warmUp = new Thread(() -> state.refusal = python.warmUp(), KafkaProvider.NAME + "-warm-up");
      state.warmUp.setDaemon(true);
      state.warmUp.start();
    }
    return state;
  }

  /**
   * Waits for the process that was started in advance, because another one would take as long. Throws what it was
   * refused, once: the first step would wait as long for the same answer.
   */
  void awaitWarmUp() {
    try {
      if (warmUp != null) {
        warmUp.join();
      }
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
      throw new UncheckedIOException(new ClosedByInterruptException()); // Spark recognises its own stop() by this
    }
    RuntimeException refused = refusal;
    refusal = null;
    if (refused != null) {
      throw refused;
    }
  }

  /** What the run's last batch left to the next one; null to take a new lease. Only Python's side reads it. */
  synchronized JsonNode takeLease() {
    JsonNode held = lease;
    lease = null;
    return held;
  }

  synchronized void batchIsDone(JsonNode lease, Map<String, String> metrics) {
    this.lease = lease;
    this.metrics = metrics;
  }

  /** The fields of the last batch's report. */
  public synchronized Map<String, String> metrics() {
    return metrics;
  }
}
