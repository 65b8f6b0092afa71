package io.oncelog.kafka.source;

import java.util.Arrays;
import java.util.Set;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.types.StructField;
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
    return new Builder(options, schema);
  }

  private static final class Builder implements SupportsPushDownRequiredColumns {
    private final CaseInsensitiveStringMap options;
    private StructType schema;

    Builder(CaseInsensitiveStringMap options, StructType schema) {
      this.options = options;
      this.schema = schema;
    }

    /** Spark prunes the columns of batches; those of streams it reads all. Headers keep all of their fields. */
    @Override
    public void pruneColumns(StructType required) {
      Set<String> names = Set.of(required.fieldNames());
      schema =
          new StructType(
              Arrays.stream(schema.fields()).filter(field -> names.contains(field.name())).toArray(StructField[]::new));
    }

    @Override
    public Scan build() {
      return new KafkaScan(options, schema);
    }
  }
}
