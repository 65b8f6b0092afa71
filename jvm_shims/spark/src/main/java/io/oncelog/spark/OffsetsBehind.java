package io.oncelog.spark;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Map;
import java.util.stream.LongStream;

/** How far a query is behind the log, by the offsets that Python writes. */
final class OffsetsBehind {
  private static final ObjectMapper JSON = new ObjectMapper();

  private OffsetsBehind() {}

  /**
   * @param latest where the log ends, as Python writes an offset of the source (offsets.py)
   * @param consumed where the query is
   */
  static Map<String, String> metrics(String latest, String consumed) {
    try {
      return SourceMetrics.offsetsBehind(
          behind(JSON.readTree(latest).path("topics"), JSON.readTree(consumed).path("topics")));
    } catch (JsonProcessingException problem) {
      throw PythonPartitions.otherVersion(problem);
    }
  }

  /** Of the partitions that the query has read of. */
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
