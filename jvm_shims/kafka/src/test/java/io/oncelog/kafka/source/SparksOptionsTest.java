package io.oncelog.kafka.source;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * The options of Spark's own Kafka source: each is accepted and does the same, or is refused with a reason, as by
 * Spark. {@code KafkaSourceProvider} of Spark 4.0 to 4.3 has this list.
 */
class SparksOptionsTest {
  private static final Map<String, String> LEAST = Map.of("kafka.bootstrap.servers", "h:9092", "subscribe", "t");

  private static SourceOptions stream(String name, String value, String... withoutNames) {
    return SourceOptions.ofStream(with(name, value, withoutNames));
  }

  private static CaseInsensitiveStringMap with(String name, String value, String... withoutNames) {
    Map<String, String> given = new HashMap<>(LEAST);
    given.keySet().removeAll(List.of(withoutNames));
    given.put(name, value);
    return new CaseInsensitiveStringMap(given);
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "assign | {\"t\":[0]}",
        "subscribePattern | t.*",
        "subscribe | a,b",
      })
  void whatSparksSourceSelectsIsSelected(String name, String value) {
    assertTrue(stream(name, value, "subscribe").description().startsWith(name));
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "startingOffsets | earliest",
        "startingOffsets | {\"t\":{\"0\":-2}}",
        "startingOffsetsByTimestamp | {\"t\":{\"0\":1000}}",
        "startingTimestamp | 1000",
        "startingOffsetsByTimestampStrategy | latest",
        "failOnDataLoss | false",
        "minPartitions | 3",
        "maxRecordsPerPartition | 10",
        "maxOffsetsPerTrigger | 100",
        "minOffsetsPerTrigger | 10",
        "maxTriggerDelay | 5m",
        "fetchOffset.numRetries | 5",
        "fetchOffset.retryIntervalMs | 20",
        "kafkaConsumer.pollTimeoutMs | 1000",
        "groupIdPrefix | mine",
        "includeHeaders | true",
        "kafka.group.id | g",
        "kafka.isolation.level | read_uncommitted",
        "kafka.any.setting | x",
      })
  void anOptionOfSparksStreamIsAcceptedInAnyCase(String name, String value) {
    stream(name, value);
    stream(name.toLowerCase(java.util.Locale.ROOT), value);
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "endingOffsets | latest",
        "endingOffsetsByTimestamp | {\"t\":{\"0\":1000}}",
        "endingTimestamp | 1000",
      })
  void anEndIsForBatchesOnlyAsInSpark(String name, String value) {
    SourceOptions.ofBatch(with(name, value));
    assertThrows(IllegalArgumentException.class, () -> stream(name, value));
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "kafka.auto.offset.reset",
        "kafka.key.deserializer",
        "kafka.value.deserializer",
        "kafka.enable.auto.commit",
        "kafka.interceptor.classes",
      })
  void aSettingThatSparkRefusesIsRefusedWithAReason(String name) {
    String message = assertThrows(IllegalArgumentException.class, () -> stream(name, "x")).getMessage();

    assertTrue(message.contains("cannot be given: ") && message.contains(name), message);
  }

  @ParameterizedTest
  @ValueSource(strings = {"h:9092,", " h:9092 , ", ",h:9092,,h:9092"})
  void aCommaTooMuchInTheBrokersIsNoError(String servers) {
    assertEquals("h:9092", stream("kafka.bootstrap.servers", servers).clientSettings.get("bootstrap.servers"));
  }

  @Test
  void anOptionThatIsLikeNoneHasNoSuggestion() {
    String message = assertThrows(IllegalArgumentException.class, () -> stream("colour", "x")).getMessage();

    assertEquals("unknown option of the source oncelog-kafka; option=colour", message);
  }
}
