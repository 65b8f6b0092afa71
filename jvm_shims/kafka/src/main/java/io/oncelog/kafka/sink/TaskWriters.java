package io.oncelog.kafka.sink;

import com.fasterxml.jackson.databind.JsonNode;
import io.oncelog.kafka.PythonSteps;
import io.oncelog.spark.WholeTaskWriter;
import java.nio.charset.StandardCharsets;
import java.util.Iterator;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWriterCommitMessage;

/**
 * Creates the tasks' writers.
 *
 * @param settings null for a batch that was decided before, of which nothing is written
 * @param hasState whether the query keeps state: its stores need all rows to be consumed, even in a replay
 */
record TaskWriters(SinkSettings settings, boolean hasState) implements StreamingDataWriterFactory {
  private static final PythonWriterCommitMessage NOTHING = new PythonWriterCommitMessage(new byte[0]);

  @Override
  public DataWriter<InternalRow> createWriter(int partitionId, long taskId, long epochId) {
    return new TaskWriter();
  }

  /** What a task sent; null if it wrote nothing. */
  static JsonNode outcome(PythonWriterCommitMessage message) {
    byte[] bytes = message.pickledMessage();
    return bytes.length == 0 ? null : PythonSteps.parse(new String(bytes, StandardCharsets.UTF_8));
  }

  private static PythonWriterCommitMessage message(TaskOutcome outcome) {
    return new PythonWriterCommitMessage(outcome.toJson().getBytes(StandardCharsets.UTF_8));
  }

  /** Leaves the transaction open: the driver aborts those that did not win. */
  private final class TaskWriter extends WholeTaskWriter {
    private WriterCommitMessage message = NOTHING;

    @Override
    public void writeAll(Iterator<InternalRow> rows) {
      if (settings != null) {
        TaskOutcome outcome = TaskOutcome.of(settings, TaskContext.get(), rows);
        message = outcome == null ? NOTHING : message(outcome);
      }
      while (hasState && rows.hasNext()) {
        rows.next();
      }
    }

    @Override
    public WriterCommitMessage commit() {
      return message;
    }
  }
}
