package io.oncelog.kafka.source;

import java.util.Arrays;
import java.util.EnumSet;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The topics of one read, as a table. */
final class KafkaTable implements Table, SupportsRead {
  private final StructType schema;

  KafkaTable(StructType schema) {
    this.schema = schema;
  }

  @Override
  public String name() {
    return KafkaProvider.NAME;
  }

  @Override
  @SuppressWarnings("deprecation") // its successor, columns(), is made of it by default
  public StructType schema() {
    return schema;
  }

  @Override
  public Set<TableCapability> capabilities() {
    return EnumSet.of(TableCapability.BATCH_READ, TableCapability.MICRO_BATCH_READ);
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
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
