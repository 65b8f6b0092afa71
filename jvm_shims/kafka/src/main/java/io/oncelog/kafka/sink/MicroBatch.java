package io.oncelog.kafka.sink;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.oncelog.kafka.KafkaProvider;
import io.oncelog.kafka.PythonSteps;
import java.util.Arrays;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWriterCommitMessage;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One micro-batch of a streaming write: Python plans it before its tasks, and decides and commits it after them.
 *
 * <p>The tasks' messages use a class of Spark, because the thread that receives results does not see a jar that was
 * added to a running session.
 */
final class MicroBatch implements StreamingWrite {
  private static final Logger LOG = LoggerFactory.getLogger(MicroBatch.class);

  private final SinkState state;
  private final PythonSteps python;
  private final Integer buckets;
  private final boolean hasGroup;

  private ObjectNode asked; // the fields that every step gets
  private JsonNode attempt; // null if nothing is open
  private long beganNanos;

  /**
   * @param hasGroup whether the sink commits the sources' offsets to a group
   */
  MicroBatch(SinkState state, PythonSteps python, Integer buckets, boolean hasGroup) {
    this.state = state;
    this.hasGroup = hasGroup;
    this.python = python;
    this.buckets = buckets;
  }

  /** Retries and speculative copies have their own transactional ids; the driver aborts those that did not win. */
  @Override
  public boolean useCommitCoordinator() {
    return false;
  }

  /** Spark calls this on the query's thread, before the tasks. */
  @Override
  public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) {
    SparkContext context = SparkContext.getOrCreate();
    state.awaitWarmUp();
    asked = PythonSteps.newObject();
    RunningQuery query = RunningQuery.ofThisThread(context);
    asked.set("query", hasGroup ? query.toJsonWithClusters() : query.toJson());
    asked.put("buckets", buckets);
    asked.put("speculates", context.getConf().getBoolean("spark.speculation", false));
    asked.set("lease", state.takeLease());
    JsonNode planned = python.ask("plan", asked);
    beganNanos = System.nanoTime();
    attempt = PythonSteps.orNull(planned.get("attempt"));
    if (attempt == null) {
      batchIsDone(planned);
    }
    boolean hasState = asked.get("query").get("hasState").booleanValue();
    return new TaskWriters(attempt == null ? null : SinkSettings.parse(planned.get("settings")), hasState);
  }

  @Override
  public void commit(long epochId, WriterCommitMessage[] messages) {
    if (attempt == null) {
      return; // it was decided before, and finished when it was planned
    }
    ObjectNode request = withAttempt();
    ArrayNode outcomes = request.putArray("outcomes");
    Arrays.stream(messages)
        .filter(Objects::nonNull)
        .map(message -> TaskWriters.outcome((PythonWriterCommitMessage) message))
        .filter(Objects::nonNull)
        .forEach(outcomes::add);
    request.put("job_ms", TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - beganNanos));
    batchIsDone(python.ask("commit", request));
  }

  /** Works on a thread that {@code stop()} interrupted too; otherwise transactions stayed open until their time-out. */
  @Override
  public void abort(long epochId, WriterCommitMessage[] messages) {
    if (attempt == null) {
      return;
    }
    boolean wasInterrupted = Thread.interrupted();
    try {
      python.ask("abort", withAttempt());
    } catch (RuntimeException problem) { // if it were thrown, Spark would not show why the batch failed
      LOG.warn("a failed batch could not be aborted; the next start of the query does it, or a time-out", problem);
    } finally {
      if (wasInterrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  /** The name of the sink in Spark's log. */
  @Override
  public String toString() {
    return KafkaProvider.NAME;
  }

  private ObjectNode withAttempt() {
    ObjectNode request = asked.deepCopy();
    request.set("attempt", attempt);
    return request;
  }

  private void batchIsDone(JsonNode answer) {
    attempt = null;
    Map<String, String> metrics = new TreeMap<>();
    answer.get("report").fields().forEachRemaining(one -> metrics.put(one.getKey(), one.getValue().asText()));
    state.batchIsDone(PythonSteps.orNull(answer.get("lease")), metrics);
  }
}
