package io.oncelog.kafka.source;

import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A read, before it is known whether it is a batch or a stream. */
record KafkaScan(CaseInsensitiveStringMap options, StructType readSchema) implements Scan {
  @Override
  public Batch toBatch() {
    return new KafkaBatch(SourceOptions.ofBatch(options), readSchema);
  }

  @Override
  public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
    Checkpoint checkpoint =
        new Checkpoint(checkpointLocation, SparkSession.active().sparkContext().hadoopConfiguration());
    return new KafkaMicroBatchStream(SourceOptions.ofStream(options), readSchema, checkpoint);
  }

  @Override
  public ColumnarSupportMode columnarSupportMode() {
    return ColumnarSupportMode.SUPPORTED;
  }

  @Override
  public String description() {
    return "oncelog-kafka";
  }
}
