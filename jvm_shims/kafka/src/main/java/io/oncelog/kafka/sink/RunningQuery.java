package io.oncelog.kafka.sink;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.oncelog.kafka.PythonSteps;
import io.oncelog.kafka.source.SourceClusters;
import io.oncelog.spark.MicroBatchRows;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.Path;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.classic.SparkSession;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The streaming query that runs on this thread, with the facts that Python's {@code oncelog.spark.kit.context} needs.
 * Uses reflection where Spark has no API, because its classes changed their packages between releases.
 */
record RunningQuery(Object execution, long batchId, String defaultPlace, Configuration hadoop) {

  /** The query whose tasks this thread is about to start. */
  static RunningQuery ofThisThread(SparkContext context) {
    UUID id = UUID.fromString(context.getLocalProperty(MicroBatchRows.QUERY_ID));
    long batchId = Long.parseLong(context.getLocalProperty("streaming.sql.batchId"));
    SparkSession session = (SparkSession) org.apache.spark.sql.SparkSession.active();
    Map<?, ?> running = session.sharedState().activeStreamingQueries();
    Object execution = running.get(id);
    if (execution == null) {
      throw unknownInternals("query=" + id, null);
    }
    return of(session, execution, batchId);
  }

  /** The query for which Spark cloned this session, as it does for each query; null if there is none. */
  static RunningQuery of(SparkSession session, long batchId) {
    Object execution = MicroBatchRows.queryOf(session);
    return execution == null ? null : of(session, execution, batchId);
  }

  private static RunningQuery of(SparkSession session, Object execution, long batchId) {
    String place = session.conf().get("spark.sql.streaming.checkpointLocation", null);
    return new RunningQuery(execution, batchId, place, session.sessionState().newHadoopConf());
  }

  /** The same, with the clusters that its Kafka sources read. */
  ObjectNode toJsonWithClusters() {
    ObjectNode facts = toJson();
    ArrayNode clusters = facts.putArray("clusters");
    for (Object stream : CollectionConverters.asJava((Seq<?>) call("sources"))) {
      clusters.add(SourceClusters.idOf(stream));
    }
    return facts;
  }

  ObjectNode toJson() {
    String root = text("resolvedCheckpointRoot");
    ObjectNode facts = PythonSteps.newObject();
    facts.put("queryId", text("id"));
    facts.put("runId", text("runId"));
    facts.put("batchId", batchId);
    facts.put("checkpointRoot", root);
    facts.put("defaultPlace", defaultPlace);
    facts.put("hasName", call("name") != null);
    facts.put("execution", execution.getClass().getSimpleName());
    facts.put("trigger", text("trigger"));
    facts.put("entry", read(new Path(root, "offsets/" + batchId)));
    facts.put("entryBefore", batchId == 0 ? null : read(new Path(root, "offsets/" + (batchId - 1))));
    facts.put("hasState", exists(new Path(root, "state")));
    return facts;
  }

  private String text(String method) {
    return String.valueOf(call(method));
  }

  private Object call(String method) {
    return call(execution, method);
  }

  private static Object call(Object execution, String method) {
    try {
      return execution.getClass().getMethod(method).invoke(execution);
    } catch (ReflectiveOperationException problem) {
      throw unknownInternals("class=" + execution.getClass().getName() + ", method=" + method, problem);
    }
  }

  private static IllegalStateException unknownInternals(String what, Exception problem) {
    return new IllegalStateException(
        "Spark's internals differ from those that oncelog knows; use a supported version of Spark, or upgrade oncelog; "
            + what,
        problem);
  }

  private String read(Path file) {
    try (FSDataInputStream stream = file.getFileSystem(hadoop).open(file)) {
      return new String(stream.readAllBytes(), StandardCharsets.UTF_8);
    } catch (FileNotFoundException missing) {
      return null;
    } catch (IOException problem) {
      throw new UncheckedIOException("the query's checkpoint cannot be read: " + file, problem);
    }
  }

  private boolean exists(Path folder) {
    try {
      return folder.getFileSystem(hadoop).exists(folder);
    } catch (IOException problem) {
      throw new UncheckedIOException("the query's checkpoint cannot be read: " + folder, problem);
    }
  }
}
