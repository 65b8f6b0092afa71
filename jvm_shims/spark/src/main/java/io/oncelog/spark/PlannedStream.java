package io.oncelog.spark;

import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;

/** The stream that Python plans, batch by batch, with other tasks. */
final class PlannedStream implements MicroBatchStream, SupportsTriggerAvailableNow {
  private final MicroBatchStream python;
  private final SupportsTriggerAvailableNow admission;
  private final PartitionReaderFactory readers;

  /**
   * @param python Spark's wrapper of the Python stream reader, which limits batches and knows AvailableNow
   */
  PlannedStream(MicroBatchStream python, PartitionReaderFactory readers) {
    this.python = python;
    this.admission = (SupportsTriggerAvailableNow) python;
    this.readers = readers;
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
  public ReadLimit getDefaultReadLimit() {
    return admission.getDefaultReadLimit();
  }

  @Override
  public void prepareForTriggerAvailableNow() {
    admission.prepareForTriggerAvailableNow();
  }

  @Override
  public Offset latestOffset(Offset start, ReadLimit limit) {
    return admission.latestOffset(start, limit);
  }

  @Override
  public Offset latestOffset() {
    return python.latestOffset();
  }

  @Override
  public Offset reportLatestOffset() {
    return admission.reportLatestOffset();
  }

  @Override
  public void commit(Offset end) {
    python.commit(end);
  }

  @Override
  public void stop() {
    python.stop();
  }

  /** What a query's progress calls the source. */
  @Override
  public String toString() {
    return OncelogProvider.NAME;
  }
}
