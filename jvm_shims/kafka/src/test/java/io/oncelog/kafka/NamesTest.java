package io.oncelog.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class NamesTest {
  private static final List<String> NAMES =
      List.of("security.protocol", "sasl.mechanism", "bootstrap.servers", "linger.ms", "max.poll.records");

  @ParameterizedTest
  @CsvSource({
    "security.protokoll, security.protocol",
    "SASL.Mechanisms, sasl.mechanism",
    "linger, linger.ms",
    "max.pol.record, max.poll.records",
  })
  void aMisspeltNameIsNearTheOneThatWasMeant(String given, String meant) {
    assertEquals(meant, Names.nearest(given, NAMES));
  }

  @Test
  void aNameOfSomethingElseIsNearNone() {
    assertNull(Names.nearest("schema.registry.url", NAMES));
    assertNull(Names.nearest("x", NAMES));
  }
}
