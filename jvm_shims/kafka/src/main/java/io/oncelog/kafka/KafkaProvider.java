package io.oncelog.kafka;

import io.oncelog.kafka.sink.BatchWrite;
import io.oncelog.kafka.sink.SinkState;
import io.oncelog.kafka.source.Reads;
import io.oncelog.spark.TableOptions;
import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.CreatableRelationProvider;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The entry point through which Spark finds {@code format("oncelog-kafka")}.
 *
 * <p>Batch writes use the older interface, as in Spark's own Kafka sink, because only there may a write leave out the
 * mode.
 */
public final class KafkaProvider implements TableProvider, CreatableRelationProvider, DataSourceRegister {
  public static final String NAME = "oncelog-kafka";

  @Override
  public String shortName() {
    return NAME;
  }

  /** Spark calls this first for every read and write, so it also checks the jar's version. */
  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    Version.get();
    return Reads.schema(options);
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    return new KafkaTable(schema, SinkState.of(properties), new TableOptions(properties));
  }

  @Override
  public BaseRelation createRelation(
      SQLContext context, SaveMode mode, scala.collection.immutable.Map<String, String> options, Dataset<Row> rows) {
    return BatchWrite.run(context, mode, options, rows);
  }
}
