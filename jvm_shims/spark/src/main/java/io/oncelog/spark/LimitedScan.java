package io.oncelog.spark;

import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructType;

/** A read by Python whose batches are limited, even on a Spark whose Python streams do not support limits. */
record LimitedScan(Scan python) implements Scan {
  @Override
  public StructType readSchema() {
    return python.readSchema();
  }

  @Override
  public Batch toBatch() {
    return python.toBatch();
  }

  @Override
  public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
    MicroBatchStream stream = python.toMicroBatchStream(checkpointLocation);
    return PlannedStream.of(stream, stream.createReaderFactory());
  }

  @Override
  public ColumnarSupportMode columnarSupportMode() {
    return python.columnarSupportMode();
  }

  @Override
  public CustomMetric[] supportedCustomMetrics() {
    return python.supportedCustomMetrics();
  }

  @Override
  public String description() {
    return python.description();
  }
}
