package io.oncelog.kafka.sink;

import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;

/**
 * Writes the rows of one micro-batch into open transactions, one for each task that has rows. Called from the driver's
 * Python side.
 */
public final class BatchWriter {
  private BatchWriter() {}

  /**
   * Run the plan of {@code rows} once, each task preparing one participant.
   *
   * @param rows with the columns that the settings name, in their order; key and value are binary
   * @param settings JSON, see {@link SinkSettings}
   * @return JSON: a list of {@link Prepared}, one for each task that wrote
   */
  public static String write(Dataset<Row> rows, String settings) {
    SinkSettings parsed = SinkSettings.parse(settings);
    JavaRDD<InternalRow> plan = ((org.apache.spark.sql.classic.Dataset<Row>) rows).queryExecution().toRdd().toJavaRDD();
    if (plan.getNumPartitions() == 0) {
      return Prepared.toJson(withoutRows(parsed));
    }
    FlatMapFunction<Iterator<InternalRow>, Prepared> task = some -> prepare(parsed, some);
    return Prepared.toJson(plan.mapPartitions(task).collect());
  }

  private static Iterator<Prepared> prepare(SinkSettings settings, Iterator<InternalRow> rows) {
    TaskContext task = TaskContext.get();
    int number = task.partitionId();
    if (!settings.writes(number) || !(settings.carriesOffsets(number) || rows.hasNext())) {
      return Collections.emptyIterator();
    }
    Participant participant = new Participant(settings, number, task.stageAttemptNumber(), task.attemptNumber());
    return Collections.singleton(participant.prepare(rows)).iterator();
  }

  /** A plan without a task: what the batch carries beside its rows is prepared here. */
  private static List<Prepared> withoutRows(SinkSettings settings) {
    if (!settings.carriesOffsets(0)) {
      return List.of();
    }
    return List.of(new Participant(settings, 0, 0, 0).prepare(Collections.emptyIterator()));
  }
}
