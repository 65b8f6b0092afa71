package io.oncelog.kafka.source;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.List;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class JsonTest {
  private static final TopicPartition A0 = new TopicPartition("a", 0);
  private static final TopicPartition B1 = new TopicPartition("b", 1);

  @Test
  void anOffsetIsWrittenInOneOrderWhateverItWasMadeOf() {
    String text = "{\"a\":{\"0\":1},\"b\":{\"1\":2,\"10\":3}}";

    assertEquals(text, Json.parseOffset("{\"b\":{\"10\":3,\"1\":2},\"a\":{\"0\":1}}").json());
    assertEquals(text, Json.parseOffset(text).json());
  }

  @Test
  void anOffsetOfSparksOwnSourceIsReadWhateverTheOrderOfItsTopics() {
    Offset spark =
        new Offset() {
          @Override
          public String json() {
            return "{\"b\":{\"1\":7},\"a\":{\"0\":5}}";
          }
        };

    assertEquals(Map.of(A0, 5L, B1, 7L), KafkaOffset.of(spark).partitions());
  }

  @Test
  void absentPartitionsAndTopicIdsAreKept() {
    KafkaOffset offset = new KafkaOffset(Map.of(A0, 1L), Map.of(B1, 2L), Map.of("b", "id"));

    assertEquals("{\"a\":{\"0\":1},\"@absent\":{\"b\":{\"1\":2}},\"@topicIds\":{\"b\":\"id\"}}", offset.json());
    KafkaOffset read = Json.parseOffset(offset.json());
    assertEquals(offset, read);
    assertEquals(Map.of(A0, 1L, B1, 2L), read.positions());
    assertEquals(Map.of("b", "id"), read.topicIds());
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "", "[]", "17", "null", "{\"a\":5}", "{\"a\":{}}", "{\"a\":{\"0\":-1}}", "{\"a\":{\"0\":1.5}}",
        "{\"a\":{\"0\":\"1\"}}", "{\"a\":{\"x\":1}}", "{\"a\":{\"0\":9223372036854775808}}",
        "{\"a\":{\"0\":1,\"0\":2}}", "{\"a\":{\"0\":1},\"@absent\":{\"a\":{\"0\":1}}}", "{\"@topicIds\":{\"a\":1}}"
      })
  void whatIsNoOffsetIsRefusedWithTheShapeThatWasExpected(String text) {
    IllegalArgumentException refusal =
        assertThrows(IllegalArgumentException.class, () -> Json.parseOffset(text));

    assertEquals(true, refusal.getMessage().startsWith("expected JSON of the shape {\"topic\":{\"0\":23}"));
  }

  @Test
  void anAssignmentIsReadInOrderAndRefusedWhereItNamesNoPartition() {
    assertEquals(List.of(A0, B1), List.copyOf(Json.parsePartitions("{\"b\":[1,1],\"a\":[0]}")));
    for (String text : List.of("{}", "{\"a\":[]}", "{\"a\":[-1]}", "{\"a\":[\"0\"]}", "{\"a\":0}")) {
      assertThrows(IllegalArgumentException.class, () -> Json.parsePartitions(text), text);
    }
  }

  @Test
  void topicIdsAreReadAsTheyWereWritten() {
    String text = "{\"a\":\"one\",\"b\":\"two\"}";

    assertEquals(text, Json.formatTexts(Json.parseTexts(text)));
  }
}
