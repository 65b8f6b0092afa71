package io.oncelog.spark.sink;

import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;

/** A write of {@code format("oncelog")} that Python plans and commits, and whose tasks write in the JVM. */
public final class JvmWriteBuilder implements WriteBuilder, SupportsTruncate {
  private final PythonDataSourceV2 source;
  private final String name;
  private final SupportsTruncate python;
  private final LogicalWriteInfo info;
  private boolean truncates;

  /**
   * @param source Spark's wrapper of the Python source
   * @param name of the source
   * @param python Spark's builder of a write by Python's tasks
   */
  public JvmWriteBuilder(PythonDataSourceV2 source, String name, SupportsTruncate python, LogicalWriteInfo info) {
    this.source = source;
    this.name = name;
    this.python = python;
    this.info = info;
  }

  /** Python refuses it where it would have a meaning. */
  @Override
  public WriteBuilder truncate() {
    python.truncate();
    truncates = true;
    return this;
  }

  @Override
  public Write build() {
    Write ofPython = python.build();
    return new Write() {
      @Override
      public BatchWrite toBatch() {
        return new JvmBatch();
      }

      @Override
      public StreamingWrite toStreaming() {
        return new JvmMicroBatch(ofPython.toStreaming());
      }

      @Override
      public String description() {
        return ofPython.description();
      }
    };
  }

  /** The pickled Python writer of a new write. */
  private byte[] newWriter(boolean isStreaming) {
    return source
        .source()
        .createWriteInfoInPython(name, info.schema(), info.options(), truncates, isStreaming)
        .writer();
  }

  private TaskWriters tasksOf(byte[] writer) {
    return new TaskWriters(Json.read(Pickles.text(writer), PlannedWrite.class), info.schema());
  }

  private final class JvmBatch implements BatchWrite {
    private byte[] writer;

    @Override
    public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo physical) {
      writer = newWriter(false);
      return tasksOf(writer);
    }

    @Override
    public void commit(WriterCommitMessage[] messages) {
      source.source().commitWriteInPython(writer, messages, false);
    }

    @Override
    public void abort(WriterCommitMessage[] messages) {
      source.source().commitWriteInPython(writer, messages, true);
    }
  }

  /**
   * @param python commits, and creates a Python writer of its own to do so
   */
  private final class JvmMicroBatch implements StreamingWrite {
    private final StreamingWrite python;

    JvmMicroBatch(StreamingWrite python) {
      this.python = python;
    }

    @Override
    public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo physical) {
      return tasksOf(newWriter(true));
    }

    @Override
    public boolean useCommitCoordinator() {
      return python.useCommitCoordinator();
    }

    @Override
    public void commit(long epochId, WriterCommitMessage[] messages) {
      python.commit(epochId, messages);
    }

    @Override
    public void abort(long epochId, WriterCommitMessage[] messages) {
      python.abort(epochId, messages);
    }

    /** The name of the sink in a query's progress. */
    @Override
    public String toString() {
      return python.toString();
    }
  }
}
