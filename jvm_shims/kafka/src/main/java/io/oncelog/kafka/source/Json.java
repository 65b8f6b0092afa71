package io.oncelog.kafka.source;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.StreamReadFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Collections;
import java.util.Map;
import java.util.SortedMap;
import java.util.SortedSet;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.TopicPartition;

/** The JSON of options and checkpoints, in the format of Spark's own source, except for names that begin with @. */
final class Json {
  static final String OFFSETS_SHAPE = "{\"topic\":{\"0\":23,\"1\":-2}}";
  static final String TIMESTAMPS_SHAPE = "{\"topic\":{\"0\":1700000000000,\"1\":1700000000000}}";
  static final String ASSIGNMENT_SHAPE = "{\"topic\":[0,1]}";
  private static final String IDS_SHAPE = "{\"topic\":\"id\"}";
  private static final String OFFSET_SHAPE =
      "{\"topic\":{\"0\":23},\"@absent\":{\"unseen\":{\"0\":7}},\"@topicIds\":{\"topic\":\"id\"}}";

  /** Names next to the topics in an offset; no topic can have such a name. */
  private static final String ABSENT = "@absent";

  private static final String TOPIC_IDS = "@topicIds";

  private static final JsonMapper MAPPER =
      JsonMapper.builder().enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION).build();

  private Json() {}

  /** Reads {@code {"topic":{"0":23}}}. */
  static SortedMap<TopicPartition, Long> parseNumbers(String text, String shape) {
    JsonNode topics = parseObject(text, shape);
    expect(!topics.isEmpty(), text, shape);
    return numbers(topics, text, shape);
  }

  /**
   * Reads {@code {"topic":{"0":23},"@absent":{"unseen":{"0":7}},"@topicIds":{"topic":"id"}}}; every part is optional.
   */
  static KafkaOffset parseOffset(String text) {
    ObjectNode topics = parseObject(text, OFFSET_SHAPE);
    JsonNode unseen = topics.remove(ABSENT);
    JsonNode ids = topics.remove(TOPIC_IDS);
    expect(unseen == null || unseen.isObject(), text, OFFSET_SHAPE);
    SortedMap<TopicPartition, Long> partitions = numbers(topics, text, OFFSET_SHAPE);
    Map<TopicPartition, Long> absent = unseen == null ? Map.of() : numbers(unseen, text, OFFSET_SHAPE);
    expect(Collections.disjoint(partitions.keySet(), absent.keySet()), text, OFFSET_SHAPE);
    KafkaOffset offset =
        new KafkaOffset(partitions, absent, ids == null ? Map.of() : texts(ids, text, OFFSET_SHAPE));
    expect(offset.positions().values().stream().allMatch(number -> number >= 0), text, OFFSET_SHAPE);
    return offset;
  }

  private static SortedMap<TopicPartition, Long> numbers(JsonNode topics, String text, String shape) {
    SortedMap<TopicPartition, Long> numbers = new TreeMap<>(PartitionOrder.BY_NAME);
    for (Map.Entry<String, JsonNode> topic : topics.properties()) {
      expect(topic.getValue().isObject() && !topic.getValue().isEmpty(), text, shape);
      for (Map.Entry<String, JsonNode> partition : topic.getValue().properties()) {
        JsonNode number = partition.getValue();
        expect(number.canConvertToLong() && number.isIntegralNumber(), text, shape);
        numbers.put(new TopicPartition(topic.getKey(), parseInt(partition.getKey(), text, shape)), number.asLong());
      }
    }
    return numbers;
  }

  /** Reads {@code {"topic":[0,1]}}. */
  static SortedSet<TopicPartition> parsePartitions(String text) {
    SortedSet<TopicPartition> partitions = new TreeSet<>(PartitionOrder.BY_NAME);
    JsonNode topics = parseObject(text, ASSIGNMENT_SHAPE);
    expect(!topics.isEmpty(), text, ASSIGNMENT_SHAPE);
    for (Map.Entry<String, JsonNode> topic : topics.properties()) {
      expect(topic.getValue().isArray() && !topic.getValue().isEmpty(), text, ASSIGNMENT_SHAPE);
      for (JsonNode partition : topic.getValue()) {
        expect(partition.isInt() && partition.asInt() >= 0, text, ASSIGNMENT_SHAPE);
        partitions.add(new TopicPartition(topic.getKey(), partition.asInt()));
      }
    }
    return partitions;
  }

  /** Writes what {@link #parseOffset} reads. Equal offsets have equal texts, because Spark compares the texts. */
  static String format(KafkaOffset offset) {
    ObjectNode topics = MAPPER.createObjectNode();
    put(offset.partitions(), topics);
    if (!offset.absent().isEmpty()) {
      put(offset.absent(), topics.putObject(ABSENT));
    }
    if (!offset.topicIds().isEmpty()) {
      ObjectNode ids = topics.putObject(TOPIC_IDS);
      offset.topicIds().forEach(ids::put);
    }
    return topics.toString();
  }

  private static void put(SortedMap<TopicPartition, Long> offsets, ObjectNode topics) {
    offsets.forEach((p, number) -> topics.withObjectProperty(p.topic()).put(String.valueOf(p.partition()), number));
  }

  /** Writes {@code {"topic":"id"}}. */
  static String formatTexts(SortedMap<String, String> texts) {
    ObjectNode object = MAPPER.createObjectNode();
    texts.forEach(object::put);
    return object.toString();
  }

  /** Reads {@code {"topic":"id"}}. */
  static SortedMap<String, String> parseTexts(String text) {
    return texts(parseObject(text, IDS_SHAPE), text, IDS_SHAPE);
  }

  private static SortedMap<String, String> texts(JsonNode object, String text, String shape) {
    expect(object.isObject(), text, shape);
    SortedMap<String, String> texts = new TreeMap<>();
    for (Map.Entry<String, JsonNode> entry : object.properties()) {
      expect(entry.getValue().isTextual(), text, shape);
      texts.put(entry.getKey(), entry.getValue().asText());
    }
    return texts;
  }

  private static ObjectNode parseObject(String text, String shape) {
    JsonNode root = null;
    try {
      root = MAPPER.readTree(text);
    } catch (JsonProcessingException problem) {
      // no JSON, or a duplicate key: the error follows
    }
    expect(root instanceof ObjectNode, text, shape);
    return (ObjectNode) root;
  }

  private static int parseInt(String digits, String text, String shape) {
    expect(digits.matches("[0-9]{1,9}"), text, shape);
    return Integer.parseInt(digits);
  }

  private static void expect(boolean condition, String text, String shape) {
    if (!condition) {
      throw new IllegalArgumentException(
          "expected JSON of the shape " + shape + ", each topic and partition once, got " + text);
    }
  }
}
