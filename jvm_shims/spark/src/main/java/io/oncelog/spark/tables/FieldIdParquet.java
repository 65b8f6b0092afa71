package io.oncelog.spark.tables;

import org.apache.hadoop.mapreduce.Job;
import org.apache.parquet.hadoop.ParquetOutputFormat;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.datasources.OutputWriterFactory;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Map;

/**
 * Spark's parquet format, whose files have the field ids of the option {@link NestedFieldIds#OPTION} too.
 *
 * <p>Spark writes the field ids that the metadata of columns has. Elements of arrays, and keys and values of maps, have
 * no metadata in Spark, so their ids have to come in another way.
 */
public final class FieldIdParquet extends ParquetFileFormat {
  @Override
  public OutputWriterFactory prepareWrite(
      SparkSession spark, Job job, Map<String, String> options, StructType schema) {
    OutputWriterFactory writers = super.prepareWrite(spark, job, options, schema);
    ParquetOutputFormat.setWriteSupportClass(job, FieldIdWriteSupport.class);
    return writers;
  }

  @Override
  public String toString() {
    return "oncelog-parquet";
  }
}
