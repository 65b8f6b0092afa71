package org.apache.spark.sql.kafka010;

import io.oncelog.conformance.SparksReads;
import io.oncelog.kafka.KafkaProvider;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.ReportsSinkMetrics;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.CreatableRelationProvider;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.sources.RelationProvider;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Replaces Spark's class of the same name, by which its suites and the short name {@code kafka} find the connector.
 * What the suites write is written by oncelog's sink, and what they read is read by oncelog's source. But the sink's
 * suites read with Spark's own source: it is a more independent check, and they run one DataFrame several times.
 */
public final class KafkaSourceProvider
    implements TableProvider, RelationProvider, CreatableRelationProvider, DataSourceRegister {
  private final KafkaProvider oncelog = new KafkaProvider();
  private final TableProvider sparks =
      SparksReads.areWanted() ? SparksReads.provider(KafkaSourceOffset.class) : null;

  @Override
  public String shortName() {
    return "kafka";
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return oncelog.inferSchema(options);
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    Table table = oncelog.getTable(schema, partitioning, withLedger(properties));
    return new KafkaTable(table, sparks == null ? table : sparks.getTable(schema, partitioning, properties));
  }

  /** The suites also ask for a table in this way. */
  public KafkaTable getTable(CaseInsensitiveStringMap options) {
    return (KafkaTable) getTable(inferSchema(options), new Transform[0], options);
  }

  @Override
  public BaseRelation createRelation(SQLContext context, scala.collection.immutable.Map<String, String> options) {
    Map<String, String> all = committed(CollectionConverters.asJava(options));
    return ((RelationProvider) sparks).createRelation(context, toScala(all));
  }

  @Override
  public BaseRelation createRelation(
      SQLContext context, SaveMode mode, scala.collection.immutable.Map<String, String> options, Dataset<Row> rows) {
    return oncelog.createRelation(context, mode, toScala(withLedger(CollectionConverters.asJava(options))), rows);
  }

  /** Oncelog's table, as an instance of the class that the suites look for. */
  public record KafkaTable(Table oncelog, Table reads)
      implements Table, SupportsRead, SupportsWrite, ReportsSinkMetrics {
    @Override
    public String name() {
      return oncelog.name();
    }

    @Override
    @SuppressWarnings("deprecation")
    public StructType schema() {
      return oncelog.schema();
    }

    @Override
    public Set<TableCapability> capabilities() {
      return oncelog.capabilities();
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
      return reads == oncelog
          ? new Builder((SupportsPushDownRequiredColumns) ((SupportsRead) reads).newScanBuilder(options))
          : ((SupportsRead) reads).newScanBuilder(new CaseInsensitiveStringMap(committed(options)));
    }

    @Override
    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
      return ((SupportsWrite) oncelog).newWriteBuilder(new InLedger(info));
    }

    @Override
    public Map<String, String> metrics() {
      return ((ReportsSinkMetrics) oncelog).metrics();
    }
  }

  private record Builder(SupportsPushDownRequiredColumns oncelog) implements SupportsPushDownRequiredColumns {
    @Override
    public void pruneColumns(StructType required) {
      oncelog.pruneColumns(required);
    }

    @Override
    public Scan build() {
      return new StreamsByName(oncelog.build());
    }
  }

  /** Oncelog's scan, whose streams are instances of the class that the suites look for. */
  private record StreamsByName(Scan oncelog) implements Scan {
    @Override
    public StructType readSchema() {
      return oncelog.readSchema();
    }

    @Override
    public String description() {
      return oncelog.description();
    }

    @Override
    public ColumnarSupportMode columnarSupportMode() {
      return oncelog.columnarSupportMode();
    }

    @Override
    public Batch toBatch() {
      return oncelog.toBatch();
    }

    @Override
    public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
      return new KafkaMicroBatchStream(oncelog.toMicroBatchStream(checkpointLocation));
    }
  }

  /** A write with the options that only oncelog's sink needs. */
  private record InLedger(LogicalWriteInfo info) implements LogicalWriteInfo {
    @Override
    public String queryId() {
      return info.queryId();
    }

    @Override
    public StructType schema() {
      return info.schema();
    }

    @Override
    public CaseInsensitiveStringMap options() {
      return new CaseInsensitiveStringMap(withLedger(info.options()));
    }
  }

  /** The sink's options, with a ledger for each broker that the suites start; Spark's sink has no such option. */
  private static Map<String, String> withLedger(Map<String, String> options) {
    String brokers = new CaseInsensitiveStringMap(options).getOrDefault("kafka.bootstrap.servers", "none");
    return with(options, "znodes", System.getProperty("java.io.tmpdir") + "/ledgers/" + brokers.replace(':', '-'));
  }

  /** The options of a reader of the sink's output, which must be read_committed (docs/guides/kafka.md). */
  private static Map<String, String> committed(Map<String, String> options) {
    return with(options, "kafka.isolation.level", "read_committed");
  }

  private static Map<String, String> with(Map<String, String> options, String name, String text) {
    Map<String, String> all = new HashMap<>(options);
    all.put(name, text);
    return all;
  }

  private static scala.collection.immutable.Map<String, String> toScala(Map<String, String> options) {
    return scala.collection.immutable.Map.from(CollectionConverters.asScala(options));
  }
}
