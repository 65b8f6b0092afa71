package io.oncelog.spark.tables;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import org.apache.parquet.schema.MessageType;
import org.apache.parquet.schema.MessageTypeParser;
import org.junit.jupiter.api.Test;

class NestedFieldIdsTest {
  private static final String SCHEMA =
      """
      message spark_schema {
        optional binary list (STRING) = 1;
        optional group tags (LIST) = 2 {
          repeated group list { optional group element%s { optional int32 x = 7; } }
        }
        optional group inner = 3 {
          optional group by_name (MAP) = 4 {
            repeated group key_value {
              required binary key (STRING)%s;
              optional group value (LIST)%s { repeated group list { optional double element%s; } }
            }
          }
        }
      }
      """;

  private static MessageType schema(Object... ids) {
    return MessageTypeParser.parseMessageType(SCHEMA.formatted(ids));
  }

  @Test
  void elementsKeysAndValuesGetTheirIdsAndOtherFieldsKeepTheirs() {
    MessageType filled = NestedFieldIds.parse("11,12,13,14").fill(schema("", "", "", ""));

    assertEquals(schema(" = 11", " = 12", " = 13", " = 14").toString(), filled.toString());
  }

  @Test
  void idsThatAreTooFewOrTooManyAreRefused() {
    for (String ids : new String[] {"11,12,13", "11,12,13,14,15"}) {
      assertThrows(IllegalArgumentException.class, () -> NestedFieldIds.parse(ids).fill(schema("", "", "", "")));
    }
  }
}
