package io.oncelog.spark.blocks;

import java.util.StringJoiner;
import org.apache.spark.QueryContext;
import org.apache.spark.SparkRuntimeException;
import scala.collection.immutable.Map;

/**
 * An error with a name, a static text that says what happened and what to do, and named fields. It is one of Spark's
 * exceptions, so it reaches Python as one of PySpark's, with this text only.
 */
public abstract class OncelogError extends SparkRuntimeException {
  private static final String CONDITION = "USER_RAISED_EXCEPTION";
  private static final String PARAMETER = "errorMessage";

  /**
   * @param fields names and values in turn
   */
  protected OncelogError(String name, String text, Throwable cause, Object... fields) {
    super(CONDITION, new Map.Map1<>(PARAMETER, name + ": " + text + named(fields)), cause, new QueryContext[0], "");
  }

  private static String named(Object[] fields) {
    if (fields.length == 0) {
      return "";
    }
    StringJoiner joined = new StringJoiner(", ", " [", "]");
    for (int i = 0; i < fields.length; i += 2) {
      Object value = fields[i + 1];
      joined.add(fields[i] + "=" + (value instanceof Number ? value : "'" + value + "'"));
    }
    return joined.toString();
  }
}
