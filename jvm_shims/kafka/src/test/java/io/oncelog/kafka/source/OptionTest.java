package io.oncelog.kafka.source;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;

class OptionTest {
  @Test
  void theTableHasEachOptionOnceAndInTheOrderOfTheConstants() {
    List<String> rows = new ArrayList<>();
    Option.Table.ROWS.fieldNames().forEachRemaining(rows::add);

    assertEquals(Arrays.stream(Option.values()).map(Option::name).toList(), rows);
    assertEquals(rows.size(), Arrays.stream(Option.values()).map(option -> option.text).distinct().count());
  }

  @Test
  void aDefaultHoldsForBatchesTooUnlessTheyHaveTheirOwn() {
    assertEquals(Optional.of("latest"), Option.STARTING_OFFSETS.defaultText(true));
    assertEquals(Optional.of("earliest"), Option.STARTING_OFFSETS.defaultText(false));
    assertEquals(Optional.of("120000"), Option.POLL_TIMEOUT_MS.defaultText(false));
    assertEquals(Optional.empty(), Option.SUBSCRIBE.defaultText(true));
  }
}
