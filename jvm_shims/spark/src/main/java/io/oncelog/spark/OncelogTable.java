package io.oncelog.spark;

import io.oncelog.spark.sink.JvmWriteBuilder;
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
  private final StructType schema;

  OncelogTable(PythonDataSourceV2 source, StructType schema) {
    super(source, OncelogProvider.NAME, schema);
    this.source = source;
    this.schema = schema;
  }

  /** Object stores are for Python, with its credentials and clients; there the socket is not the bottleneck. */
  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    ScanBuilder python = super.newScanBuilder(options);
    return isInJvm(options, READER)
        ? new WholeColumns(schema, columns -> new OncelogScan(python.build(), columns))
        : () -> new LimitedScan(python.build());
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    ContinuousProcessing.refuse();
    WriteBuilder python = super.newWriteBuilder(info);
    return isInJvm(info.options(), WRITER)
        ? new JvmWriteBuilder(source, name(), (SupportsTruncate) python, info)
        : python;
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
