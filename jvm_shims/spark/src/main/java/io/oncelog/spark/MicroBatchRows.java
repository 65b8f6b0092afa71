package io.oncelog.spark;

import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.execution.SQLExecution;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Refuses batch writes of the rows of a micro-batch: when Spark runs the batch again, they append its rows again.
 *
 * <p>Assumptions: Spark runs each query in a session of its own, and a foreachBatch function gets its rows as a {@link
 * LogicalRDD} of that session. Hence they are noticed in the plan of a write wherever it runs: on Spark Connect that is
 * another thread than the query's, and before Spark 4.3 another session, too. The Kafka connector's jar contains this
 * class too.
 */
public final class MicroBatchRows {
  /** The local property of a query's thread, and of its tasks. */
  public static final String QUERY_ID = "sql.streaming.queryId";

  private MicroBatchRows() {}

  /**
   * Call this before the tasks of a batch write.
   *
   * @param plan of the rows
   * @param instead what to call in place of the write
   * @throws IllegalArgumentException if a streaming query runs the write, or the plan reads a micro-batch of one
   */
  public static void refuse(SparkSession session, LogicalPlan plan, String instead) {
    if (session.sparkContext().getLocalProperty(QUERY_ID) != null
        || queryOf(session) != null
        || leaves(plan).anyMatch(leaf -> leaf instanceof LogicalRDD rows && queryOf(sessionOf(rows)) != null)) {
      throw new IllegalArgumentException(
          "UsageError: a batch write in a foreachBatch function is not exactly once: when Spark runs the batch again, "
              + "it appends its rows again; "
              + instead);
    }
  }

  /** The same for the write that this thread is about to run. */
  public static void refuse(String instead) {
    SparkSession session = (SparkSession) org.apache.spark.sql.SparkSession.active();
    String execution = session.sparkContext().getLocalProperty(SQLExecution.EXECUTION_ID_KEY());
    refuse(session, SQLExecution.getQueryExecution(Long.parseLong(execution)).analyzed(), instead);
  }

  /** The streaming query for which Spark cloned this session, as it does for each query; null if there is none. */
  public static Object queryOf(SparkSession session) {
    for (Object execution : session.sharedState().activeStreamingQueries().values()) {
      if (execution != null && session.equals(sessionOf(execution))) {
        return execution;
      }
    }
    return null;
  }

  private static Stream<LogicalPlan> leaves(LogicalPlan plan) {
    Iterable<LogicalPlan> subqueries = CollectionConverters.asJava(plan.subqueriesAll());
    return Stream.concat(Stream.of(plan), StreamSupport.stream(subqueries.spliterator(), false))
        .flatMap(part -> CollectionConverters.asJava(part.collectLeaves()).stream());
  }

  private static SparkSession sessionOf(LogicalRDD rows) {
    return (SparkSession) rows.otherCopyArgs().head();
  }

  /** By reflection, because the class changed its package between releases of Spark. */
  private static Object sessionOf(Object execution) {
    try {
      return execution.getClass().getMethod("sparkSessionForStream").invoke(execution);
    } catch (ReflectiveOperationException problem) {
      throw new IllegalStateException(
          "Spark's internals differ from those that oncelog knows; use a supported version of Spark, or upgrade "
              + "oncelog; class="
              + execution.getClass().getName(),
          problem);
    }
  }
}
