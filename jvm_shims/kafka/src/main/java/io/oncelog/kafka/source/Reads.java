package io.oncelog.kafka.source;

import io.oncelog.spark.WholeColumns;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The door of the source: what {@code format("oncelog-kafka")} reads. */
public final class Reads {
  private Reads() {}

  /** The columns of a read. */
  public static StructType schema(CaseInsensitiveStringMap options) {
    return RecordColumns.schema(SourceOptions.includesHeaders(options));
  }

  /** A read of these columns, of which Spark may leave out some. */
  public static ScanBuilder builder(CaseInsensitiveStringMap options, StructType schema) {
    return new WholeColumns(schema, columns -> new KafkaScan(options, columns));
  }
}
