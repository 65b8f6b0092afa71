package io.oncelog.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class IdleClientsTest {
  private final List<String> closed = new ArrayList<>();
  private final IdleClients<String, String> idle = new IdleClients<>("idle-in-a-test", 10, closed::add);

  @Test
  void aClientBelongsToWhoeverTookIt() {
    idle.give("key", "first", 1);

    assertNull(idle.take("other", any -> true));
    assertEquals("first", idle.take("key", any -> true));
    assertNull(idle.take("key", any -> true));
    assertEquals(List.of(), closed);
  }

  @Test
  void thePreferredClientIsTakenAndElseTheNewest() {
    idle.give("key", "first", 1);
    idle.give("key", "second", 1);
    idle.give("key", "third", 1);

    assertEquals("second", idle.take("key", "second"::equals));
    assertEquals("third", idle.take("key", "second"::equals));
  }

  @Test
  void theOldestAreClosedWhenTheyAreTooLargeTogether() {
    idle.give("a", "first", 6);
    idle.give("b", "second", 4);
    assertEquals(List.of(), closed);

    idle.give("c", "third", 5);
    assertEquals(List.of("first"), closed);

    idle.take("b", any -> true);
    idle.give("d", "fourth", 5);
    assertEquals(List.of("first"), closed);
  }

  @Test
  void aClientThatIsTooLargeByItselfIsClosed() {
    idle.give("key", "large", 11);

    assertEquals(List.of("large"), closed);
    assertNull(idle.take("key", any -> true));
  }

  @Test
  void whatCanNoLongerBeUsedIsClosed() {
    idle.give("old", "first", 4);
    idle.give("new", "second", 4);

    idle.drop("old"::equals);

    assertEquals(List.of("first"), closed);
    idle.give("new", "third", 6);
    assertEquals(List.of("first"), closed);
  }
}
