package io.oncelog.kafka.sink;

import io.oncelog.kafka.ClientSettings;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.classic.SparkSession;

/**
 * Writes the rows of one micro-batch into open transactions, one for each task that has rows. The driver's Python side
 * calls it.
 */
public final class BatchWriter {
  private BatchWriter() {}

  /**
   * Finds the query whose micro-batch Spark passed to a foreachBatch function; JSON, null if there is none.
   *
   * @param withClusters whether to name the clusters of its Kafka sources
   */
  public static String queryOf(Dataset<Row> rows, long batchId, boolean withClusters) {
    RunningQuery query = RunningQuery.of((SparkSession) rows.sparkSession(), batchId);
    if (query == null) {
      return "null";
    }
    return (withClusters ? query.toJsonWithClusters() : query.toJson()).toString();
  }

  /**
   * Runs the plan of {@code rows} once; each task prepares one participant.
   *
   * @param rows with the columns that the settings name, in that order
   * @param settings JSON, see {@link SinkSettings}
   * @return JSON: a list of {@link TaskOutcome}, one for each task that had something to write
   */
  public static String write(Dataset<Row> rows, String settings) {
    SinkSettings parsed = SinkSettings.parse(settings);
    ClientSettings.warnOfUnknown(parsed.producer().keySet());
    JavaRDD<InternalRow> plan = ((org.apache.spark.sql.classic.Dataset<Row>) rows).queryExecution().toRdd().toJavaRDD();
    if (plan.getNumPartitions() == 0) {
      return TaskOutcome.toJson(withoutRows(parsed));
    }
    FlatMapFunction<Iterator<InternalRow>, TaskOutcome> task =
        some -> {
          TaskOutcome outcome = TaskOutcome.of(parsed, TaskContext.get(), some);
          return outcome == null ? Collections.emptyIterator() : Collections.singleton(outcome).iterator();
        };
    return TaskOutcome.toJson(plan.mapPartitions(task).collect());
  }

  /** A plan without tasks: the source's offsets, if the batch has any, are prepared here. */
  private static List<TaskOutcome> withoutRows(SinkSettings settings) {
    if (!settings.carriesOffsets(0)) {
      return List.of();
    }
    return List.of(TaskOutcome.prepared(new ParticipantWriter(settings, 0, 0, 0), Collections.emptyIterator()));
  }
}
