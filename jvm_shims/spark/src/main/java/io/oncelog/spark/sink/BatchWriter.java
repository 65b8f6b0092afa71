package io.oncelog.spark.sink;

import java.util.Iterator;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.StructType;

/** Writes the rows of one micro-batch of foreachBatch. The driver's Python side calls it. */
public final class BatchWriter {
  private BatchWriter() {}

  /** The version of oncelog that this jar is from. */
  public static String version() {
    return BatchWriter.class.getPackage().getImplementationVersion();
  }

  /**
   * Runs the plan of {@code rows} once; each task writes its rows.
   *
   * @param rows with the sink's columns
   * @param task JSON, see {@link WriteTask}
   * @return JSON: for each task, in their order, a list of {@link Written}
   */
  public static String write(Dataset<Row> rows, String task) {
    WriteTask parsed = Json.read(task, WriteTask.class);
    StructType schema = rows.schema();
    // The result is a text, because the thread that receives results does not see a jar that was added to a session.
    FlatMapFunction<Iterator<InternalRow>, String> write =
        some -> List.of(Json.write(TaskWriter.write(parsed, schema, some))).iterator();
    return ((org.apache.spark.sql.classic.Dataset<Row>) rows)
        .queryExecution().toRdd().toJavaRDD().mapPartitions(write).collect().stream()
            .collect(Collectors.joining(",", "[", "]"));
  }
}
