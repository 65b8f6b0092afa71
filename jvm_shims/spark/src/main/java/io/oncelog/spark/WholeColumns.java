package io.oncelog.spark;

import java.util.Arrays;
import java.util.Set;
import java.util.function.Function;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * Builds a scan of the columns that Spark asks for. Spark prunes the columns of batches only; streams read all. Headers
 * keep all of their fields.
 */
public final class WholeColumns implements SupportsPushDownRequiredColumns {
  private final Function<StructType, Scan> scan;
  private StructType schema;

  /**
   * @param schema all columns
   * @param scan creates the scan of the columns that are left
   */
  public WholeColumns(StructType schema, Function<StructType, Scan> scan) {
    this.schema = schema;
    this.scan = scan;
  }

  @Override
  public void pruneColumns(StructType required) {
    Set<String> names = Set.of(required.fieldNames());
    schema =
        new StructType(
            Arrays.stream(schema.fields()).filter(field -> names.contains(field.name())).toArray(StructField[]::new));
  }

  @Override
  public Scan build() {
    return scan.apply(schema);
  }
}
