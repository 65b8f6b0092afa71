package io.oncelog.spark;

import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadAllAvailable;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;

/**
 * A stream on Spark 4.0 and 4.1, whose wrapper of Python streams does not support limits. Questions to Python use the
 * only call that takes two offsets, and the answer comes in a partition (asked_stream.py).
 */
final class AskedStream extends PlannedStream {
  /** Any limit except that of {@code Trigger.Once}; Python knows the real limit from its options. */
  private static final ReadLimit AS_ITS_OPTIONS_SAY = ReadLimit.maxRows(Long.MAX_VALUE);

  private static final String NOWHERE = "{}";

  AskedStream(MicroBatchStream python, PartitionReaderFactory readers) {
    super(python, readers);
  }

  @Override
  public ReadLimit getDefaultReadLimit() {
    return AS_ITS_OPTIONS_SAY;
  }

  @Override
  public void prepareForTriggerAvailableNow() {
    ask("prepareForTriggerAvailableNow", deserializeOffset(NOWHERE));
  }

  @Override
  public Offset latestOffset(Offset start, ReadLimit limit) {
    return deserializeOffset(ask(limit instanceof ReadAllAvailable ? "latestOffsetOfAll" : "latestOffset", start));
  }

  @Override
  Offset logEnd() {
    String latest = ask("reportLatestOffset", deserializeOffset(NOWHERE));
    return latest.equals("null") ? null : deserializeOffset(latest);
  }

  private String ask(String question, Offset start) {
    InputPartition[] answer = planInputPartitions(start, deserializeOffset("{\"@ask\":\"" + question + "\"}"));
    return PythonPartitions.text(answer[0]);
  }
}
