package io.oncelog.kafka.sink;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Collection;
import java.util.Iterator;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;

/**
 * The outcome of a task that had something to write: it prepared a participant, or says why it could not. If another
 * attempt cannot succeed, the task reports this outcome instead of failing. Otherwise Spark would try it again, and
 * give the driver a page of text instead of one sentence.
 *
 * @param participant null if the task failed
 * @param kind of the failure; null if there was none
 * @param problem one sentence
 */
record TaskOutcome(Participant participant, SinkException.Kind kind, String problem) implements java.io.Serializable {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final Pattern LOCAL = Pattern.compile("local(?:\\[[^,]*(?:,\\s*(\\d+))?\\])?");

  /** Prepares a task's participant; null if there is nothing to write. */
  static TaskOutcome of(SinkSettings settings, TaskContext task, Iterator<InternalRow> rows) {
    int number = task.partitionId();
    if (!settings.writes(number) || !(settings.carriesOffsets(number) || rows.hasNext())) {
      return null;
    }
    try {
      return prepared(new ParticipantWriter(settings, number, task.stageAttemptNumber(), task.attemptNumber()), rows);
    } catch (SinkException problem) {
      if (problem.kind().isPassing() && !isLast(task)) {
        throw problem;
      }
      return new TaskOutcome(null, problem.kind(), problem.getMessage());
    }
  }

  static TaskOutcome prepared(ParticipantWriter writer, Iterator<InternalRow> rows) {
    return new TaskOutcome(writer.prepare(rows), null, null);
  }

  String toJson() {
    return json(this);
  }

  static String toJson(Collection<TaskOutcome> outcomes) {
    return json(outcomes);
  }

  /** Whether Spark would not try the task again: {@code local[2]} never does, {@code local[2,4]} says how often. */
  private static boolean isLast(TaskContext task) {
    SparkConf conf = SparkEnv.get().conf();
    Matcher local = LOCAL.matcher(conf.get("spark.master", ""));
    int most = conf.getInt("spark.task.maxFailures", 4);
    if (local.matches()) {
      most = local.group(1) == null ? 1 : Integer.parseInt(local.group(1));
    }
    return task.attemptNumber() + 1 >= most;
  }

  private static String json(Object value) {
    try {
      return JSON.writeValueAsString(value);
    } catch (JsonProcessingException problem) {
      throw new IllegalStateException("a task's outcome cannot be written as JSON", problem);
    }
  }
}
