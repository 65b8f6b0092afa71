package io.oncelog.kafka.sink;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.InputStream;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;

/** What crosses between Python and Java. Python's {@code test_wire.py} reads the same file. */
class WireTest {
  private static final long BEYOND_DOUBLE = 9007199254740993L;
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final JsonNode WIRE = read();

  private static JsonNode read() {
    try (InputStream file = WireTest.class.getResourceAsStream("wire.json")) {
      return JSON.readTree(file);
    } catch (IOException problem) {
      throw new IllegalStateException(problem);
    }
  }

  @Test
  void readsTheSettingsThatPythonWrites() {
    SinkSettings settings = SinkSettings.parse(WIRE.get("settings"));

    assertEquals("arrivals", settings.transactionalIdPrefix());
    assertEquals(7, settings.lease());
    assertEquals("900000", settings.producer().get("transaction.timeout.ms"));
    assertArrayEquals(
        new SinkSettings.Column[] {
          new SinkSettings.Column("value", "binary"), new SinkSettings.Column("key", "string")
        },
        settings.columns());
    assertNull(settings.topic());
    assertEquals(Set.of("oncelog-ledger"), settings.ledgerTopics());
    assertEquals("oncelog.arrivals", settings.tokenGroupPrefix());
    assertEquals("7:nonce", settings.token());
    assertEquals(41, settings.batchId());
    assertEquals("arrivals-progress", settings.sourceGroup());
    assertEquals(Map.of("flights", Map.of(0, 12L, 1, BEYOND_DOUBLE)), settings.sourceOffsets());
    assertEquals(Set.of(0, 2), settings.only());
    assertEquals(true, settings.isHashed());
    Handover handover =
        new Handover(new Handover.Identity(BEYOND_DOUBLE, 3), new Handover.Identity(BEYOND_DOUBLE, 4));
    assertEquals(Map.of(0, handover), settings.handovers());
  }

  @Test
  void writesTheOutcomesThatPythonReads() throws IOException {
    OffsetRanges ranges = new OffsetRanges(topic -> "mQdjZ0LQTnWmJqwl4eVNRg");
    ranges.add("delayed", 3, 9);
    ranges.add("delayed", 3, 8);
    ranges.add("delayed", 0, 5);
    Participant participant =
        new Participant(
            "arrivals-0-7.0.1", 0, BEYOND_DOUBLE, 3, 2, 2, -17, "delayed", ranges.topics(), false);

    String written =
        TaskOutcome.toJson(
            List.of(
                new TaskOutcome(participant, null, null),
                new TaskOutcome(null, SinkException.Kind.UNKNOWN_TOPIC, "the topic gone")));

    assertEquals(JSON.readTree(WIRE.get("outcomes").toString()), JSON.readTree(written));
  }
}
