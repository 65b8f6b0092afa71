package io.oncelog.kafka.source;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.StreamReadFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.util.Map;
import java.util.SortedMap;
import java.util.SortedSet;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.TopicPartition;

/** The JSON of options and checkpoints. Its shapes are those of Spark's own Kafka source. */
final class Json {
  static final String OFFSETS_SHAPE = "{\"topic\":{\"0\":23,\"1\":-2}}";
  static final String TIMESTAMPS_SHAPE = "{\"topic\":{\"0\":1700000000000,\"1\":1700000000000}}";
  static final String ASSIGNMENT_SHAPE = "{\"topic\":[0,1]}";

  private static final JsonMapper MAPPER =
      JsonMapper.builder().enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION).build();

  private Json() {}

  /** Reads {@code {"topic":{"0":23}}}. */
  static SortedMap<TopicPartition, Long> parseNumbers(String text, String shape) {
    SortedMap<TopicPartition, Long> numbers = new TreeMap<>(PartitionOrder.BY_NAME);
    JsonNode topics = parseObject(text, shape);
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
    for (Map.Entry<String, JsonNode> topic : parseObject(text, ASSIGNMENT_SHAPE).properties()) {
      expect(topic.getValue().isArray() && !topic.getValue().isEmpty(), text, ASSIGNMENT_SHAPE);
      for (JsonNode partition : topic.getValue()) {
        expect(partition.isInt() && partition.asInt() >= 0, text, ASSIGNMENT_SHAPE);
        partitions.add(new TopicPartition(topic.getKey(), partition.asInt()));
      }
    }
    return partitions;
  }

  /** Writes {@code {"topic":{"0":23}}}; equal offsets make equal texts, since Spark compares those. */
  static String format(Map<TopicPartition, Long> numbers) {
    TreeMap<String, TreeMap<Integer, Long>> topics = new TreeMap<>();
    numbers.forEach(
        (partition, number) ->
            topics.computeIfAbsent(partition.topic(), name -> new TreeMap<>()).put(partition.partition(), number));
    return formatAny(topics);
  }

  /** Writes {@code {"topic":"id"}}. */
  static String formatTexts(Map<String, String> texts) {
    return formatAny(new TreeMap<>(texts));
  }

  /** Reads {@code {"topic":"id"}}. */
  static SortedMap<String, String> parseTexts(String text) {
    SortedMap<String, String> texts = new TreeMap<>();
    for (Map.Entry<String, JsonNode> entry : parseObject(text, "{\"topic\":\"id\"}").properties()) {
      texts.put(entry.getKey(), entry.getValue().asText());
    }
    return texts;
  }

  private static String formatAny(Object value) {
    try {
      return MAPPER.writeValueAsString(value);
    } catch (JsonProcessingException impossible) {
      throw new IllegalStateException(impossible);
    }
  }

  private static JsonNode parseObject(String text, String shape) {
    JsonNode root = null;
    try {
      root = MAPPER.readTree(text);
    } catch (JsonProcessingException problem) {
      // no JSON, or a key twice: said below
    }
    expect(root != null && root.isObject() && !root.isEmpty(), text, shape);
    return root;
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
