package io.oncelog.spark.tables;

import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.execution.datasources.parquet.ParquetWriteSupport;

/** Spark's, with the ids of {@link NestedFieldIds} in the schema of the file. Parquet creates it in each task. */
public final class FieldIdWriteSupport extends ParquetWriteSupport {
  @Override
  public WriteContext init(Configuration configuration) {
    WriteContext spark = super.init(configuration);
    NestedFieldIds ids = NestedFieldIds.parse(configuration.get(NestedFieldIds.OPTION));
    return new WriteContext(ids.fill(spark.getSchema()), spark.getExtraMetaData());
  }
}
