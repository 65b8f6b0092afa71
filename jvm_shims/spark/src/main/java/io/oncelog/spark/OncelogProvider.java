package io.oncelog.spark;

import java.util.Map;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;

/**
 * Where Spark finds {@code format("oncelog")} when this jar is on its class path: a registered JVM source comes before
 * a Python one of the same name. Being Spark's own wrapper of Python sources, it is given the name, and finds the
 * Python source by it.
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
    } catch (Exception notFound) { // Spark's are checked, and Scala does not say so
      throw MissingPython.why(notFound, "pyspark_oncelog", "oncelog[spark]");
    }
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    return new OncelogTable(this, schema);
  }
}
