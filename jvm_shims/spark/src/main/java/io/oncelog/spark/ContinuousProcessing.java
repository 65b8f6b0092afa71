package io.oncelog.spark;

/**
 * Refuses continuous processing, which has no micro-batches and passes no rows to Python's sinks. Nothing that Spark
 * asks a table shows that a query is continuous, so this looks at the call stack. The Kafka connector's jar contains
 * this class too.
 */
public final class ContinuousProcessing {
  private ContinuousProcessing() {}

  /**
   * Call this when Spark asks a table for a write. A continuous query does that while it is created, so {@code start()}
   * fails.
   *
   * @throws IllegalArgumentException if the write is that of a continuous query
   */
  public static void refuse() {
    boolean isContinuous =
        StackWalker.getInstance()
            .walk(frames -> frames.anyMatch(frame -> frame.getClassName().endsWith(".ContinuousExecution")));
    if (isContinuous) {
      throw new IllegalArgumentException(
          "the sink writes micro-batches, and continuous processing has none: leave trigger(continuous=...) out");
    }
  }
}
