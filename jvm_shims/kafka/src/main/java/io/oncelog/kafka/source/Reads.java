package io.oncelog.kafka.source;

import io.oncelog.spark.WholeColumns;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The entry point of the source: reads of {@code format("oncelog-kafka")}. */
public final class Reads {
  private Reads() {}

  /** The columns of a read. */
  public static StructType schema(CaseInsensitiveStringMap options) {
    return RecordColumns.schema(SourceOptions.includesHeaders(options));
  }

  /** A read of these columns; Spark may prune some. */
  public static ScanBuilder builder(CaseInsensitiveStringMap options, StructType schema) {
    return new WholeColumns(schema, columns -> new KafkaScan(options, columns));
  }
}
