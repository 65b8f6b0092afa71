package io.oncelog.spark;

/**
 * Refuses continuous processing, which gives Python's sinks no rows, and has no micro-batches. Spark asks a table no
 * question that tells it apart. The Kafka connector's jar carries this class too.
 */
public final class ContinuousProcessing {
  private ContinuousProcessing() {}

  /**
   * To be called where Spark asks a table for a write: a continuous query does so while it is made, so {@code start()}
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
