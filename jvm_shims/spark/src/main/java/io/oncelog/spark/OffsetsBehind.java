package io.oncelog.spark;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Map;
import java.util.stream.LongStream;

/** How far a query is behind the log, computed from the offsets that Python writes. */
final class OffsetsBehind {
  private static final ObjectMapper JSON = new ObjectMapper();

  private OffsetsBehind() {}

  /**
   * @param latest where the log ends, in the source's format (offsets.py)
   * @param consumed how far the query has read, in the same format
   */
  static Map<String, String> metrics(String latest, String consumed) {
    try {
      return SourceMetrics.offsetsBehind(
          behind(JSON.readTree(latest).path("topics"), JSON.readTree(consumed).path("topics")));
    } catch (JsonProcessingException problem) {
      throw PythonPartitions.otherVersion(problem);
    }
  }

  /** The distance for each partition that the query has read from. */
  private static LongStream behind(JsonNode latest, JsonNode consumed) {
    return consumed.properties().stream()
        .flatMapToLong(
            topic -> {
              JsonNode ends = latest.path(topic.getKey()).path("offsets");
              return topic.getValue().path("offsets").properties().stream()
                  .filter(offset -> ends.has(offset.getKey()))
                  .mapToLong(offset -> ends.get(offset.getKey()).asLong() - offset.getValue().asLong());
            });
  }
}
