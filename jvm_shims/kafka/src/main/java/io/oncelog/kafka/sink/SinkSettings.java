package io.oncelog.kafka.sink;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.Serializable;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/**
 * What the tasks of one batch need to know; read from the JSON that the driver's Python side writes.
 *
 * @param transactionalIdPrefix of the participants
 * @param lease number that the participants' ids carry; a newer driver has another
 * @param producer settings of Kafka's producer, complete but for the transactional id
 * @param columns the columns of the rows, in their order: value, any of key, topic, partition, headers, and others
 * @param topic of all rows; null if each row names its own
 * @param tokenGroupPrefix participant {@code p} writes its token to the group {@code <this>-<p>}
 * @param token what the token says, and its offset: the batch id
 * @param batchId of the micro-batch
 * @param sourceGroup group whose source offsets the batch carries; null without one
 * @param sourceOffsets these offsets, by topic and partition
 * @param only partitions that write; null for all of them
 * @param isHashed whether the participants' content is hashed
 */
record SinkSettings(
    String transactionalIdPrefix,
    long lease,
    Map<String, String> producer,
    Column[] columns,
    String topic,
    String tokenGroupPrefix,
    String token,
    long batchId,
    String sourceGroup,
    Map<String, Map<Integer, Long>> sourceOffsets,
    Set<Integer> only,
    boolean isHashed)
    implements Serializable {

  private static final ObjectMapper JSON = new ObjectMapper();

  /**
   * A column of the rows.
   *
   * @param name of the column
   * @param type as Spark calls it
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
        root.get("tokenGroupPrefix").asText(),
        root.get("token").asText(),
        root.get("batchId").asLong(),
        textOrNull(root.get("sourceGroup")),
        JSON.convertValue(root.get("sourceOffsets"), new TypeReference<TreeMap<String, Map<Integer, Long>>>() {}),
        JSON.convertValue(root.get("only"), new TypeReference<Set<Integer>>() {}),
        root.get("isHashed").asBoolean());
  }

  /** Whether partition {@code number} of the batch is to be written. */
  boolean writes(int number) {
    return only == null || only.contains(number);
  }

  /** Whether partition {@code number} carries the source's offsets: one participant does, even without a row. */
  boolean carriesOffsets(int number) {
    return sourceGroup != null && number == 0;
  }

  private static String textOrNull(JsonNode node) {
    return node == null || node.isNull() ? null : node.asText();
  }
}
