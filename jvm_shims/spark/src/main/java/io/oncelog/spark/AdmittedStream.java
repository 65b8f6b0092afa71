package io.oncelog.spark;

import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;

/** A stream on Spark 4.2 and later, whose wrapper of Python streams limits batches and supports AvailableNow. */
final class AdmittedStream extends PlannedStream {
  private final SupportsTriggerAvailableNow admission;

  AdmittedStream(MicroBatchStream python, SupportsTriggerAvailableNow admission, PartitionReaderFactory readers) {
    super(python, readers);
    this.admission = admission;
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
  Offset logEnd() {
    return admission.reportLatestOffset();
  }
}
