package io.oncelog.spark;

import java.util.LongSummaryStatistics;
import java.util.Map;
import java.util.stream.LongStream;

/** What both sources report about a query, under the names of Spark's Kafka source. */
public final class SourceMetrics {
  private SourceMetrics() {}

  /**
   * How far a query is behind.
   *
   * @param behind for each partition, how many offsets the query has not read; below 0 counts as 0
   */
  public static Map<String, String> offsetsBehind(LongStream behind) {
    LongSummaryStatistics found = behind.map(count -> Math.max(count, 0)).summaryStatistics();
    boolean isEmpty = found.getCount() == 0;
    return Map.of(
        "minOffsetsBehindLatest", String.valueOf(isEmpty ? 0 : found.getMin()),
        "maxOffsetsBehindLatest", String.valueOf(isEmpty ? 0 : found.getMax()),
        "avgOffsetsBehindLatest", String.valueOf(found.getAverage()));
  }
}
