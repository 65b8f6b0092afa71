package io.oncelog.spark;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;

/** Writes all rows of a task at once. There is nothing to abort or to close: whoever decides ends what did not win. */
public abstract class WholeTaskWriter implements DataWriter<InternalRow> {
  @Override
  public final void write(InternalRow row) {
    throw new UnsupportedOperationException("Spark 4 passes a task's rows to writeAll");
  }

  @Override
  public void abort() {}

  @Override
  public void close() {}
}
