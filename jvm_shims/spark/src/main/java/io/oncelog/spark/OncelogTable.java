package io.oncelog.spark;

import io.oncelog.spark.sink.GuardedWriteBuilder;
import io.oncelog.spark.sink.JvmWriteBuilder;
import java.util.EnumSet;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The table of one read or write: Spark's table of the Python source, but its tasks read and write in the JVM. */
final class OncelogTable extends PythonTable {
  /** If one of them is false, everything that is planned from then on is read or written by Python. */
  private static final String READER = "spark.oncelog.jvmReader";

  private static final String WRITER = "spark.oncelog.jvmWriter";

  private static final String OBJECT_STORE = "s3:";

  private final PythonDataSourceV2 source;
  private static final String BROKERS = "kafka.bootstrap.servers";

  private final StructType schema;
  private final TableOptions ofTable;

  OncelogTable(PythonDataSourceV2 source, StructType schema, TableOptions ofTable) {
    super(source, OncelogProvider.NAME, schema);
    this.source = source;
    this.schema = schema;
    this.ofTable = ofTable;
  }

  /** Rows may lack columns that a read shows, as in Spark's Kafka tables; Python checks those that it gets. */
  @Override
  public Set<TableCapability> capabilities() {
    Set<TableCapability> all = EnumSet.copyOf(super.capabilities());
    all.add(TableCapability.ACCEPT_ANY_SCHEMA);
    return all;
  }

  /** Object stores are for Python, with its credentials and clients; there the socket is not the bottleneck. */
  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap given) {
    CaseInsensitiveStringMap options = checked(given);
    ScanBuilder python = super.newScanBuilder(options);
    return isInJvm(options, READER)
        ? new WholeColumns(schema, columns -> new OncelogScan(python.build(), columns))
        : () -> new LimitedScan(python.build());
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo given) {
    ContinuousProcessing.refuse();
    LogicalWriteInfo info = new CheckedWrite(given.queryId(), given.schema(), checked(given.options()));
    SupportsTruncate python = (SupportsTruncate) super.newWriteBuilder(info);
    boolean isInJvm = isInJvm(info.options(), WRITER);
    return new GuardedWriteBuilder(isInJvm ? new JvmWriteBuilder(source, name(), python, info) : python);
  }

  private record CheckedWrite(String queryId, StructType schema, CaseInsensitiveStringMap options)
      implements LogicalWriteInfo {}

  /** All options. Brokers are refused here, because Spark would bury Python's sentence in its tracebacks. */
  private CaseInsensitiveStringMap checked(CaseInsensitiveStringMap given) {
    CaseInsensitiveStringMap options = ofTable.with(given);
    if (options.containsKey(BROKERS)) {
      throw new IllegalArgumentException(
          "UsageError: the format oncelog is the embedded log in the folder `path`, which has no brokers; for a Kafka "
              + "cluster use the format oncelog-kafka; option=" + BROKERS);
    }
    return options;
  }

  private static boolean isInJvm(CaseInsensitiveStringMap options, String option) {
    boolean isLocal = !options.getOrDefault("path", "").startsWith(OBJECT_STORE);
    return isLocal && Boolean.parseBoolean(SQLConf.get().getConfString(option, "true"));
  }

  /** The name of the sink in a query's progress. */
  @Override
  public String toString() {
    return name();
  }
}
