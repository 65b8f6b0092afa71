package io.oncelog.spark;

import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The topics of one read or write as a table: the Python one, read by other tasks. */
final class OncelogTable extends PythonTable {
  /** Set to false, reads are those of the Python source again, for all that is planned from then on. */
  private static final String SWITCH = "spark.oncelog.jvmReader";

  private static final String OBJECT_STORE = "s3:";

  private final StructType schema;

  OncelogTable(PythonDataSourceV2 source, StructType schema) {
    super(source, OncelogProvider.NAME, schema);
    this.schema = schema;
  }

  /** Python's credentials and clients read object stores: there the socket is not what bounds a read. */
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

  /** What a query's progress calls the sink. */
  @Override
  public String toString() {
    return name();
  }
}
