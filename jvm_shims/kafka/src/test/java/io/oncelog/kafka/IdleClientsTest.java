package io.oncelog.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.Test;

class IdleClientsTest {
  private final String name = "idle-in-a-test-" + System.identityHashCode(this); // tests leave threads

  private final AtomicLong nowMs = new AtomicLong();
  private final List<String> closed = new CopyOnWriteArrayList<>();
  private final IdleClients<String, String> idle = new IdleClients<>(name, 10, closed::add, nowMs::get);

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

  @Test
  void clientsThatWereIdleForTooLongAreClosedAndTheThreadEndsWithTheLast() throws InterruptedException {
    idle.give("a", "first", 1);
    nowMs.set(1);
    idle.give("b", "second", 1);
    Thread sweeper = sweeper();

    nowMs.addAndGet(IdleClients.IDLE_FOR_MS);
    sweeper.interrupt(); // it looks now
    await(() -> closed.equals(List.of("first")));

    nowMs.addAndGet(1);
    sweeper.interrupt();
    sweeper.join();
    assertEquals(List.of("first", "second"), closed);
    assertNull(idle.take("b", any -> true));
    assertTrue(sweeper.isDaemon());
  }

  private Thread sweeper() {
    return Thread.getAllStackTraces().keySet().stream().filter(one -> one.getName().equals(name)).findFirst().get();
  }

  private static void await(BooleanSupplier isSo) throws InterruptedException {
    while (!isSo.getAsBoolean()) {
      Thread.sleep(1);
    }
  }
}
