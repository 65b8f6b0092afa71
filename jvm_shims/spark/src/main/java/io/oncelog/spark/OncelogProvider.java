package io.oncelog.spark;

import java.util.Map;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;

/**
 * The entry point through which Spark finds {@code format("oncelog")} if this jar is on its class path, because a
 * registered JVM source takes precedence over a Python source of the same name. It is Spark's own wrapper of Python
 * sources, which finds the Python source by the same name.
 */
public final class OncelogProvider extends PythonDataSourceV2 implements DataSourceRegister {
  static final String NAME = "oncelog";

  @Override
  public String shortName() {
    return NAME;
  }

  @Override
  public UserDefinedPythonDataSource source() {
    try {
      return super.source();
    } catch (Exception notFound) { // Spark throws checked exceptions, which Scala does not declare
      throw MissingPython.why(notFound, "pyspark_oncelog", "oncelog[spark]");
    }
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    return new OncelogTable(this, schema, new TableOptions(properties));
  }
}
