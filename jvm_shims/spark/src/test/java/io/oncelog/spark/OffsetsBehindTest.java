package io.oncelog.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Map;
import org.junit.jupiter.api.Test;

class OffsetsBehindTest {
  private static final String LATEST =
      "{\"topics\":{\"a\":{\"id\":\"1\",\"offsets\":{\"0\":10,\"1\":7}},\"b\":{\"id\":\"2\",\"offsets\":{\"0\":5}}}}";

  private static Map<String, String> metrics(String least, String most, String mean) {
    return Map.of(
        "minOffsetsBehindLatest", least, "maxOffsetsBehindLatest", most, "avgOffsetsBehindLatest", mean);
  }

  @Test
  void aQueryIsBehindByWhatItHasNotReadOfEachPartition() {
    String consumed = "{\"topics\":{\"a\":{\"id\":\"1\",\"offsets\":{\"0\":4,\"1\":7}}}}";

    assertEquals(metrics("0", "6", "3.0"), OffsetsBehind.metrics(LATEST, consumed));
  }

  @Test
  void whatIsGoneOrReadToItsEndIsNotBehind() {
    String consumed = "{\"topics\":{\"a\":{\"id\":\"1\",\"offsets\":{\"0\":12}},\"gone\":{\"offsets\":{\"0\":3}}}}";

    assertEquals(metrics("0", "0", "0.0"), OffsetsBehind.metrics(LATEST, consumed));
    assertEquals(metrics("0", "0", "0.0"), OffsetsBehind.metrics(LATEST, "{\"topics\":{}}"));
  }
}
