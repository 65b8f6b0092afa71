package org.apache.spark.sql.kafka010;

import io.oncelog.kafka.KafkaProvider;
import java.util.EnumSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap$;
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
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.internal.connector.SupportsStreamingUpdateAsAppend;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Stands in the place of Spark's class of this name, under which its suites and the short name {@code kafka} find the
 * connector: what is read is read by oncelog. What the suites write is still written by Spark's sink.
 */
public final class KafkaSourceProvider implements TableProvider, DataSourceRegister {
  private final KafkaProvider oncelog = new KafkaProvider();

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
    return new KafkaTable(oncelog.getTable(schema, partitioning, properties));
  }

  /** The suites ask for a table in this way too. */
  public KafkaTable getTable(CaseInsensitiveStringMap options) {
    return new KafkaTable(oncelog.getTable(inferSchema(options), new Transform[0], options));
  }

  /** Oncelog's table, to which Spark's sink is added. */
  public record KafkaTable(Table table) implements Table, SupportsRead, SupportsWrite {
    @Override
    public String name() {
      return "KafkaTable"; // by this name Spark lets a sink's progress be tracked asynchronously
    }

    @Override
    @SuppressWarnings("deprecation")
    public StructType schema() {
      return table.schema();
    }

    @Override
    public Set<TableCapability> capabilities() {
      Set<TableCapability> capabilities = EnumSet.copyOf(table.capabilities());
      capabilities.addAll(
          EnumSet.of(
              TableCapability.BATCH_WRITE, TableCapability.STREAMING_WRITE, TableCapability.ACCEPT_ANY_SCHEMA));
      return capabilities;
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
      return new Builder((SupportsPushDownRequiredColumns) ((SupportsRead) table).newScanBuilder(options));
    }

    @Override
    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
      return new SparksWrite(info);
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

  /** Oncelog's scan, whose streams have the class that the suites look for. */
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

  private record SparksWrite(LogicalWriteInfo info) implements SupportsStreamingUpdateAsAppend {
    @Override
    public Write build() {
      scala.collection.immutable.Map<String, String> options =
          scala.collection.immutable.Map.from(CollectionConverters.asScala(info.options()));
      return new KafkaWrite(
          Option.apply(Optional.ofNullable(info.options().get("topic")).map(String::trim).orElse(null)),
          KafkaSourceProvider$.MODULE$.kafkaParamsForProducer(CaseInsensitiveMap$.MODULE$.apply(options)),
          info.schema());
    }
  }
}
