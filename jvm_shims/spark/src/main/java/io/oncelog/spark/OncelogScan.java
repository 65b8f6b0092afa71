package io.oncelog.spark;

import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructType;

/**
 * A read that Python plans and that shows columns.
 *
 * @param python plans it; knows all columns of the table, and is told nothing of those that are left out
 * @param readSchema the columns that are shown
 */
record OncelogScan(Scan python, StructType readSchema) implements Scan {
  @Override
  public Batch toBatch() {
    return new PlannedBatch(python.toBatch(), new TaskReaderFactory(readSchema));
  }

  @Override
  public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
    return PlannedStream.of(python.toMicroBatchStream(checkpointLocation), new TaskReaderFactory(readSchema));
  }

  @Override
  public ColumnarSupportMode columnarSupportMode() {
    return ColumnarSupportMode.SUPPORTED;
  }

  @Override
  public String description() {
    return "oncelog " + readSchema.simpleString();
  }

  private record PlannedBatch(Batch python, PartitionReaderFactory createReaderFactory) implements Batch {
    @Override
    public InputPartition[] planInputPartitions() {
      return python.planInputPartitions();
    }
  }
}
