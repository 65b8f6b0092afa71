package io.oncelog.spark.sink;

import io.oncelog.spark.MicroBatchRows;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;

/** A write of {@code format("oncelog")} that refuses to write a micro-batch as a batch. */
public record GuardedWriteBuilder(SupportsTruncate guarded) implements WriteBuilder, SupportsTruncate {
  private static final String INSTEAD =
      "call oncelog.spark.sink(...) in the function, with the DataFrame and the batch id, or write the stream with "
          + "writeStream.format(\"oncelog\"), as Spark Connect needs it";

  @Override
  public WriteBuilder truncate() {
    return new GuardedWriteBuilder((SupportsTruncate) guarded.truncate());
  }

  @Override
  public Write build() {
    Write write = guarded.build();
    return new Write() {
      @Override
      public BatchWrite toBatch() {
        MicroBatchRows.refuse(INSTEAD);
        return write.toBatch();
      }

      @Override
      public StreamingWrite toStreaming() {
        return write.toStreaming();
      }

      @Override
      public String description() {
        return write.description();
      }
    };
  }
}
