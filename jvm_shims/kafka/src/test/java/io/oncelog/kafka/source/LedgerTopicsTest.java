package io.oncelog.kafka.source;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;

class LedgerTopicsTest {
  @Test
  void anEntryBeginsWithItsVersionAfterItsLength() {
    assertTrue(LedgerTopics.isEntry(bytes("\0\0\0\u0040{\"version\":1,\"sender\":\"x\"}")));
    assertTrue(LedgerTopics.isEntry(bytes("\0\0\0\u0040{\"version\":")));
  }

  @Test
  void whatOthersWriteIsNoEntry() {
    assertFalse(LedgerTopics.isEntry(null));
    assertFalse(LedgerTopics.isEntry(bytes("")));
    assertFalse(LedgerTopics.isEntry(bytes("{\"version\":1,\"id\":17,\"amount\":4}")));
    assertFalse(LedgerTopics.isEntry(bytes("\0\0\0\u0040{\"version\"")));
  }

  private static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.ISO_8859_1);
  }
}
