package io.oncelog.spark;

import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructType;

/**
 * A read that Python plans and the JVM runs, in columns.
 *
 * @param python plans the read, always with all columns of the table
 * @param readSchema the columns that the read shows
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
