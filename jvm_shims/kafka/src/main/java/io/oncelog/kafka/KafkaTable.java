package io.oncelog.kafka;

import io.oncelog.kafka.sink.SinkState;
import io.oncelog.kafka.sink.TopicWriteBuilder;
import io.oncelog.kafka.source.Reads;
import io.oncelog.spark.ContinuousProcessing;
import io.oncelog.spark.TableOptions;
import java.util.EnumSet;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.ReportsSinkMetrics;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The table of one read, or of one streaming write, which keeps its table as long as it runs. */
final class KafkaTable implements Table, SupportsRead, SupportsWrite, ReportsSinkMetrics {
  private final StructType schema;
  private final SinkState sink;
  private final TableOptions ofTable;

  KafkaTable(StructType schema, SinkState sink, TableOptions ofTable) {
    this.schema = schema;
    this.sink = sink;
    this.ofTable = ofTable;
  }

  @Override
  public String name() {
    return KafkaProvider.NAME;
  }

  @Override
  @SuppressWarnings("deprecation") // its successor, columns(), calls it by default
  public StructType schema() {
    return schema;
  }

  @Override
  public Set<TableCapability> capabilities() {
    return EnumSet.of(
        TableCapability.BATCH_READ,
        TableCapability.MICRO_BATCH_READ,
        TableCapability.STREAMING_WRITE,
        TableCapability.V1_BATCH_WRITE,
        TableCapability.ACCEPT_ANY_SCHEMA);
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return Reads.builder(ofTable.with(options), schema);
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    ContinuousProcessing.refuse();
    return new TopicWriteBuilder(sink, info.schema(), ofTable.with(info.options()));
  }

  /** The last batch's report, which the query's progress shows under {@code sink.metrics}. */
  @Override
  public Map<String, String> metrics() {
    return sink.metrics();
  }

  /** The name of the sink in a query's progress. */
  @Override
  public String toString() {
    return name();
  }
}
