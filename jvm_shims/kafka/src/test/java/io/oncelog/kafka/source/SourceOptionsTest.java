package io.oncelog.kafka.source;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class SourceOptionsTest {
  private static final String LARGEST = String.valueOf(Long.MAX_VALUE);

  @Test
  void whatIsNotGivenHasItsDocumentedDefault() {
    SourceOptions stream = stream();

    assertEquals(new Position.Latest(), stream.starting);
    assertEquals(new Position.Earliest(), batch().starting);
    assertEquals(new Position.Latest(), batch().ending);
    assertTrue(stream.failOnDataLoss);
    assertTrue(stream.isReadCommitted());
    assertEquals(OptionalLong.empty(), stream.maxOffsetsPerTrigger);
    assertEquals(15 * 60_000, stream.maxTriggerDelayMs);
    assertEquals(120_000, stream.pollTimeoutMs);
    assertEquals(3, stream.fetchOffsetRetries);
    assertEquals(1_000, stream.fetchOffsetRetryIntervalMs);
  }

  @Test
  void pythonGetsWhatItNeedsToFindTheLedgerAsTheUserGaveIt() {
    SourceOptions options =
        stream(
            "wholeBatches", "true",
            "LEDGERTOPIC", "ledger",
            "kafka.sasl.jaas.config", "org.apache.kafka.Login required;",
            "maxOffsetsPerTrigger", "5");

    Map<String, String> found = options.ledgerOptions();

    assertTrue(options.readsWholeBatches);
    assertEquals("ledger", found.get("LEDGERTOPIC"));
    assertEquals("org.apache.kafka.Login required;", found.get("kafka.sasl.jaas.config"));
    assertTrue(found.keySet().stream().noneMatch(name -> name.equals("maxOffsetsPerTrigger")));
    assertTrue(found.keySet().stream().noneMatch(name -> name.equals("subscribe")));
  }

  @Test
  void numbersMayBeAsLargeAsJavasLong() {
    SourceOptions options =
        stream(
            "maxOffsetsPerTrigger", LARGEST,
            "minOffsetsPerTrigger", LARGEST,
            "maxRecordsPerPartition", "000" + LARGEST,
            "kafkaConsumer.pollTimeoutMs", LARGEST,
            "startingTimestamp", LARGEST);

    assertEquals(OptionalLong.of(Long.MAX_VALUE), options.maxOffsetsPerTrigger);
    assertEquals(OptionalLong.of(Long.MAX_VALUE), options.minOffsetsPerTrigger);
    assertEquals(OptionalLong.of(Long.MAX_VALUE), options.maxRecordsPerPartition);
    assertEquals(Long.MAX_VALUE, options.pollTimeoutMs);
    assertEquals(new Position.AtTimestamp(Long.MAX_VALUE), options.starting);
  }

  @ParameterizedTest
  @ValueSource(strings = {"9223372036854775808", "99999999999999999999999", "0", "-1", "+1", "1.0", "1e3", "many"})
  void aNumberThatIsNoneOrTooLargeIsRefusedByName(String text) {
    String message = refusal("maxOffsetsPerTrigger", text);

    assertTrue(message.contains("option=maxOffsetsPerTrigger, found=" + text), message);
    assertTrue(message.contains("a whole number from 1 to " + LARGEST), message);
  }

  @ParameterizedTest
  @CsvSource({
    "startingOffset, startingOffsets",
    "subscrib, subscribe",
    "maxOffsetPerTriger, maxOffsetsPerTrigger",
  })
  void anUnknownOptionIsRefusedWithTheNearestName(String unknown, String nearest) {
    String message = refusal(unknown, "1");

    assertTrue(message.endsWith("option=" + unknown + ", nearest=" + nearest), message);
  }

  @Test
  void namesMatchInAnyCase() {
    assertEquals(OptionalLong.of(5), stream("MAXOFFSETSPERTRIGGER", "5").maxOffsetsPerTrigger);
  }

  @Test
  void anAssignmentReplacesOtherSubscriptions() {
    Map<String, String> given = new HashMap<>(Map.of("kafka.bootstrap.servers", "h:1", "assign", "{\"t\":[2,0]}"));
    SourceOptions options = SourceOptions.ofStream(new CaseInsensitiveStringMap(given));

    Subscription.Assigned assigned = (Subscription.Assigned) options.subscription;
    assertEquals(Set.of(new TopicPartition("t", 0), new TopicPartition("t", 2)), assigned.partitions());

    given.put("subscribe", "t");
    assertThrows(
        IllegalArgumentException.class, () -> SourceOptions.ofStream(new CaseInsensitiveStringMap(given)));
  }

  @Test
  void theTimestampOfAReadBeatsTheOneOfEachPartitionAndThatTheOffsets() {
    String offsets = "{\"t\":{\"0\":5}}";

    assertEquals(
        new Position.AtTimestamp(7),
        stream("startingTimestamp", "7", "startingOffsetsByTimestamp", offsets, "startingOffsets", offsets).starting);
    assertTrue(
        stream("startingOffsetsByTimestamp", offsets, "startingOffsets", offsets).starting
            instanceof Position.AtTimestamps);
  }

  @Test
  void offsetsMayHaveStandInsAndTheirPartitionsAreInOrder() {
    String offsets = "{\"t\":{\"1\":-1,\"0\":-2}}";
    Position.AtOffsets position = (Position.AtOffsets) stream("startingOffsets", offsets).starting;

    assertEquals(
        List.of(Map.entry(new TopicPartition("t", 0), -2L), Map.entry(new TopicPartition("t", 1), -1L)),
        List.copyOf(position.offsets().entrySet()));
  }

  @Test
  void aGroupIsNamedWhereAReadStartsAtItsOffsets() {
    assertEquals(new Position.Group(), stream("startingOffsets", "GROUP", "groupId", "g").starting);
    assertTrue(refusal("startingOffsets", "group").contains("missing=groupId"));
  }

  @ParameterizedTest
  @CsvSource({
    "subscribe, topic names",
    "subscribePattern, a regular expression",
    "assign, JSON of the shape",
  })
  void whatIsReadIsNotLeftEmpty(String option, String expected) {
    String message = refusalOfBrokersAnd(Map.of(option, ""));

    assertTrue(message.contains("option=" + option) && message.contains(expected), message);
  }

  @Test
  void whatIsReadIsSaidByOneOption() {
    assertTrue(refusalOfBrokersAnd(Map.of()).endsWith("given=0"));
    assertTrue(refusalOfBrokersAnd(Map.of("subscribe", "t", "subscribePattern", "t.*")).endsWith("given=2"));
    assertTrue(refusalOfBrokersAnd(Map.of("subscribe", "t", "assign", "{\"t\":[0]}")).endsWith("given=2"));
  }

  @ParameterizedTest
  @CsvSource({
    "startingOffsets, latest, not latest",
    "startingOffsets, '{\"t\":{\"0\":-1}}', not latest",
    "endingOffsets, earliest, latest",
    "endingOffsets, '{\"t\":{\"0\":-2}}', without -2",
  })
  void aBatchNeedsARange(String option, String value, String expected) {
    String message = assertThrows(IllegalArgumentException.class, () -> batch(option, value)).getMessage();

    assertTrue(message.contains("option=" + option) && message.contains(expected), message);
  }

  @Test
  void aBatchMustNotStartAfterItsEnd() {
    String start = "{\"t\":{\"0\":5,\"1\":-2}}";
    String end = "{\"t\":{\"0\":4,\"1\":-1}}";

    assertThrows(IllegalArgumentException.class, () -> batch("startingOffsets", start, "endingOffsets", end));
    assertThrows(IllegalArgumentException.class, () -> batch("startingTimestamp", "9", "endingTimestamp", "8"));
    batch("startingOffsets", start, "endingOffsets", "{\"t\":{\"0\":5,\"1\":-1}}");
  }

  @ParameterizedTest
  @ValueSource(strings = {"endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"})
  void aStreamHasNoEnd(String option) {
    String value = option.equals("endingTimestamp") ? "5" : "{\"t\":{\"0\":1}}";

    assertTrue(refusal(option, value).contains("a stream has no end"));
  }

  @Test
  void aClientSettingIsTakenWithoutItsPrefixAndInLowerCase() {
    assertEquals("9", stream("KAFKA.Max.Poll.Records", "9").clientSettings.get("max.poll.records"));
  }

  private static String refusal(String... given) {
    return assertThrows(IllegalArgumentException.class, () -> stream(given)).getMessage();
  }

  private static String refusalOfBrokersAnd(Map<String, String> more) {
    Map<String, String> given = new HashMap<>(more);
    given.put("kafka.bootstrap.servers", "h:9092");
    return assertThrows(
            IllegalArgumentException.class, () -> SourceOptions.ofBatch(new CaseInsensitiveStringMap(given)))
        .getMessage();
  }

  private static SourceOptions stream(String... given) {
    return SourceOptions.ofStream(of(given));
  }

  private static SourceOptions batch(String... given) {
    return SourceOptions.ofBatch(of(given));
  }

  private static CaseInsensitiveStringMap of(String... given) {
    Map<String, String> options = new HashMap<>(Map.of("kafka.bootstrap.servers", "h:9092", "subscribe", "t"));
    for (int i = 0; i < given.length; i += 2) {
      options.put(given[i], given[i + 1]);
    }
    return new CaseInsensitiveStringMap(options);
  }
}
