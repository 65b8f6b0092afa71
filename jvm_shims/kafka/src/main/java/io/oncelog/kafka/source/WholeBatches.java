package io.oncelog.kafka.source;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.oncelog.kafka.PythonSteps;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.types.StructType;

/**
 * Finds ends for a read that cut no batch of the sinks: all rows of a batch lie before the ends, or none.
 *
 * <p>Python does it ({@code oncelog_kafka.whole_batches}), because it reads the sinks' ledger. It reads the ledger when
 * it is asked, so ask only after the brokers said how far the partitions can be read. Then the ledger has every batch
 * of which a row could be seen.
 */
final class WholeBatches {
  private final PythonSteps python;

  private WholeBatches(SourceOptions options) {
    python = new PythonSteps(new StructType(), options.ledgerOptions());
  }

  /** Nothing if the read does not ask for whole batches. */
  static Optional<WholeBatches> of(SourceOptions options) {
    return options.readsWholeBatches ? Optional.of(new WholeBatches(options)) : Optional.empty();
  }

  /**
   * The last ends that cut no batch.
   *
   * @param topics that have the partitions
   * @param starts where the read begins; at 0 in a partition that is not named
   * @param stable how far each partition can be read
   */
  Map<TopicPartition, Long> ends(
      Map<String, Cluster.Topic> topics, Map<TopicPartition, Long> starts, Map<TopicPartition, Long> stable) {
    return ask(topics, starts, stable, Map.of());
  }

  /**
   * Ends that cut no batch and lie before {@code wanted} if that leaves something to read, otherwise behind it.
   *
   * @param topics see {@link #ends}
   * @param starts see {@link #ends}
   * @param wanted how far a limit lets the read go
   * @param last what {@link #ends} found
   */
  Map<TopicPartition, Long> limited(
      Map<String, Cluster.Topic> topics,
      Map<TopicPartition, Long> starts,
      Map<TopicPartition, Long> wanted,
      Map<TopicPartition, Long> last) {
    return ask(topics, starts, wanted, last);
  }

  private Map<TopicPartition, Long> ask(
      Map<String, Cluster.Topic> topics,
      Map<TopicPartition, Long> starts,
      Map<TopicPartition, Long> wanted,
      Map<TopicPartition, Long> last) {
    ObjectNode request = PythonSteps.newObject();
    ObjectNode asked = request.putObject("topics");
    wanted.forEach(
        (partition, end) -> {
          ObjectNode topic = asked.withObjectProperty(partition.topic());
          topic.put("id", topics.get(partition.topic()).id());
          ArrayNode offsets =
              topic.withObjectProperty("partitions").putArray(String.valueOf(partition.partition()));
          offsets.add(Math.min(starts.getOrDefault(partition, 0L), end)).add(end);
          if (!last.isEmpty()) {
            offsets.add(last.get(partition));
          }
        });
    JsonNode answered = python.ask("whole", request).get("ends");
    Map<TopicPartition, Long> ends = new HashMap<>();
    wanted.keySet().forEach(p -> ends.put(p, answered.get(p.topic()).get(String.valueOf(p.partition())).asLong()));
    return ends;
  }
}
