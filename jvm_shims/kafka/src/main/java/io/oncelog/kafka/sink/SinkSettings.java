package io.oncelog.kafka.sink;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.oncelog.kafka.PythonSteps;
import java.io.Serializable;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/**
 * What the tasks of one batch need to know. The driver's Python side writes it as JSON.
 *
 * @param lease the number in the participants' ids; a newer driver has another one
 * @param producer settings of Kafka's producer, without the transactional id
 * @param columns the columns of the rows, in order: value, any of key, topic, partition, headers, and others
 * @param topic of all rows; null if each row names its own
 * @param ledgerTopics topics that keep ledgers, and take no rows
 * @param tokenGroupPrefix participant {@code p} writes its token to the group {@code <this>-<p>}
 * @param token the metadata of the tokens
 * @param batchId of the micro-batch; the offset of the tokens
 * @param sourceGroup the group that the batch commits source offsets to; null without one
 * @param sourceOffsets these offsets, by topic and partition
 * @param only the partitions that write; null for all of them
 * @param isHashed whether to hash the participants' content
 * @param handovers of the last transactions under the participants' ids, by partition of the batch
 */
record SinkSettings(
    String transactionalIdPrefix,
    long lease,
    Map<String, String> producer,
    Column[] columns,
    String topic,
    Set<String> ledgerTopics,
    String tokenGroupPrefix,
    String token,
    long batchId,
    String sourceGroup,
    Map<String, Map<Integer, Long>> sourceOffsets,
    Set<Integer> only,
    boolean isHashed,
    Map<Integer, Handover> handovers)
    implements Serializable {

  private static final ObjectMapper JSON = new ObjectMapper();

  /**
   * A column of the rows.
   *
   * @param type Spark's name of the type
   */
  record Column(String name, String type) implements Serializable {}

  static SinkSettings parse(String text) {
    return parse(PythonSteps.parse(text));
  }

  static SinkSettings parse(JsonNode root) {
    return new SinkSettings(
        root.get("transactionalIdPrefix").asText(),
        root.get("lease").asLong(),
        JSON.convertValue(root.get("producer"), new TypeReference<TreeMap<String, String>>() {}),
        JSON.convertValue(root.get("columns"), Column[].class),
        textOrNull(root.get("topic")),
        JSON.convertValue(root.get("ledgerTopics"), new TypeReference<Set<String>>() {}),
        root.get("tokenGroupPrefix").asText(),
        root.get("token").asText(),
        root.get("batchId").asLong(),
        textOrNull(root.get("sourceGroup")),
        JSON.convertValue(root.get("sourceOffsets"), new TypeReference<TreeMap<String, Map<Integer, Long>>>() {}),
        JSON.convertValue(root.get("only"), new TypeReference<Set<Integer>>() {}),
        root.get("isHashed").asBoolean(),
        handovers(root.get("handovers")));
  }

  /** The producer's batch size in bytes. */
  long batchSize() {
    return Long.parseLong(producer.get("batch.size").strip());
  }

  /** Whether partition {@code number} of the batch has to be written. */
  boolean writes(int number) {
    return only == null || only.contains(number);
  }

  /** Whether partition {@code number} commits the source's offsets: one participant does, even without rows. */
  boolean carriesOffsets(int number) {
    return sourceGroup != null && number == 0;
  }

  private static Map<Integer, Handover> handovers(JsonNode root) {
    Map<Integer, Handover> found = new HashMap<>();
    root.fields().forEachRemaining(one -> found.put(Integer.valueOf(one.getKey()), Handover.parse(one.getValue())));
    return found;
  }

  private static String textOrNull(JsonNode node) {
    return node == null || node.isNull() ? null : node.asText();
  }
}
