package io.oncelog.spark.sink;

import java.util.Iterator;
import java.util.List;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWriterCommitMessage;
import org.apache.spark.sql.types.StructType;

/**
 * Creates the writers of the tasks of {@code format("oncelog")}.
 *
 * @param planned by Python
 * @param schema of the rows
 */
record TaskWriters(PlannedWrite planned, StructType schema) implements DataWriterFactory, StreamingDataWriterFactory {
  @Override
  public DataWriter<InternalRow> createWriter(int partitionId, long taskId) {
    return new RowsWriter();
  }

  @Override
  public DataWriter<InternalRow> createWriter(int partitionId, long taskId, long epochId) {
    return new RowsWriter();
  }

  /** What one task wrote, for which run of which query, and under which hold; writer.py reads it. */
  private record TaskMessage(List<Written> written, String queryId, String runId, String hold) {}

  private final class RowsWriter implements DataWriter<InternalRow> {
    private WriterCommitMessage message;

    @Override
    public void writeAll(Iterator<InternalRow> rows) {
      TaskContext task = TaskContext.get();
      TaskMessage found =
          new TaskMessage(
              TaskWriter.write(planned.task(), schema, rows),
              task.getLocalProperty("sql.streaming.queryId"),
              task.getLocalProperty("spark.jobGroup.id"),
              planned.hold());
      message = new PythonWriterCommitMessage(Pickles.call("task_message", Json.write(found)));
    }

    @Override
    public void write(InternalRow row) {
      throw new UnsupportedOperationException("Spark 4 passes a task's rows to writeAll");
    }

    @Override
    public WriterCommitMessage commit() {
      return message;
    }

    /** Nothing to do: a task that fails deletes its files, and collection those of one that did not win. */
    @Override
    public void abort() {}

    @Override
    public void close() {}
  }
}
