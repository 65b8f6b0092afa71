package io.oncelog.spark;

import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;

/** A stream whose batches Python plans, with the tasks of this jar or of Python. */
abstract class PlannedStream implements MicroBatchStream, SupportsTriggerAvailableNow, ReportsSourceMetrics {
  private final MicroBatchStream python;
  private final PartitionReaderFactory readers;
  private Offset latest;

  PlannedStream(MicroBatchStream python, PartitionReaderFactory readers) {
    this.python = python;
    this.readers = readers;
  }

  /**
   * @param python Spark's wrapper of the Python stream reader
   */
  static PlannedStream of(MicroBatchStream python, PartitionReaderFactory readers) {
    return python instanceof SupportsTriggerAvailableNow admission
        ? new AdmittedStream(python, admission, readers)
        : new AskedStream(python, readers);
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return readers;
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    return python.planInputPartitions(start, end);
  }

  @Override
  public Offset initialOffset() {
    return python.initialOffset();
  }

  @Override
  public Offset deserializeOffset(String json) {
    return python.deserializeOffset(json);
  }

  @Override
  public Offset latestOffset() {
    return python.latestOffset();
  }

  /** Where the log ends now; null if that is not known. */
  abstract Offset logEnd();

  @Override
  public Offset reportLatestOffset() {
    latest = logEnd();
    return latest;
  }

  /** Spark calls this after each batch, once it knows where the log ends. */
  @Override
  public Map<String, String> metrics(Optional<Offset> latestConsumed) {
    return latest == null || latestConsumed.isEmpty()
        ? Map.of()
        : OffsetsBehind.metrics(latest.json(), latestConsumed.get().json());
  }

  @Override
  public void commit(Offset end) {
    python.commit(end);
  }

  @Override
  public void stop() {
    python.stop();
  }

  /** The name of the source in a query's progress. */
  @Override
  public String toString() {
    return OncelogProvider.NAME;
  }
}
