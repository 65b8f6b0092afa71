package io.oncelog.spark;

import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The table of one read or write: Spark's table of the Python source, but read by tasks in the JVM. */
final class OncelogTable extends PythonTable {
  /** If it is false, everything that is planned from then on is read by Python. */
  private static final String SWITCH = "spark.oncelog.jvmReader";

  private static final String OBJECT_STORE = "s3:";

  private final StructType schema;

  OncelogTable(PythonDataSourceV2 source, StructType schema) {
    super(source, OncelogProvider.NAME, schema);
    this.schema = schema;
  }

  /** Object stores are read in Python, with its credentials and clients; there the socket is not the bottleneck. */
  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    ScanBuilder python = super.newScanBuilder(options);
    boolean isLocal = !options.getOrDefault("path", "").startsWith(OBJECT_STORE);
    return isLocal && isSwitchedOn()
        ? new WholeColumns(schema, columns -> new OncelogScan(python.build(), columns))
        : () -> new LimitedScan(python.build());
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    ContinuousProcessing.refuse();
    return super.newWriteBuilder(info);
  }

  private static boolean isSwitchedOn() {
    return Boolean.parseBoolean(SQLConf.get().getConfString(SWITCH, "true"));
  }

  /** The name of the sink in a query's progress. */
  @Override
  public String toString() {
    return name();
  }
}
