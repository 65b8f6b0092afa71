package io.oncelog.spark.sink;

import io.oncelog.spark.WholeTaskWriter;
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

  /** If its task fails, it deletes its files; collection deletes those of a task that did not win. */
  private final class RowsWriter extends WholeTaskWriter {
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
    public WriterCommitMessage commit() {
      return message;
    }
  }
}
