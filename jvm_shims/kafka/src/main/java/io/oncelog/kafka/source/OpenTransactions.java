package io.oncelog.kafka.source;

import java.util.Map;
import java.util.StringJoiner;
import java.util.TreeMap;
import org.apache.kafka.common.TopicPartition;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Finds the transactions that hold back a read_committed reader. An open transaction keeps the last stable offset at
 * its first record, and everything that was committed after that is invisible until the transaction ends.
 */
final class OpenTransactions {
  private static final Logger LOG = LoggerFactory.getLogger(OpenTransactions.class);

  /** Transactions that are open for a shorter time are normal, and not looked up. */
  private static final long ASK_AFTER_MS = 1_000;

  private static final long WARN_AFTER_MS = 30_000;
  private static final long WARN_AGAIN_AFTER_MS = 5 * 60_000;

  /** A partition whose last stable offset does not move, although the log goes on after it. */
  private static final class Held {
    final long offset;
    final long sinceMs;
    String holder; // null before it is looked up
    long warnedMs;

    Held(long offset, long sinceMs) {
      this.offset = offset;
      this.sinceMs = sinceMs;
    }
  }

  private final Cluster cluster;
  private final Map<TopicPartition, Held> held = new TreeMap<>(PartitionOrder.BY_NAME);

  OpenTransactions(Cluster cluster) {
    this.cluster = cluster;
  }

  /**
   * Notes where the logs are now.
   *
   * @param stable how far each log can be read
   * @param ends where each log ends
   */
  void observe(Map<TopicPartition, Long> stable, Map<TopicPartition, Long> ends, long nowMs) {
    held.keySet().retainAll(stable.keySet());
    stable.forEach(
        (partition, offset) -> {
          if (ends.getOrDefault(partition, offset) <= offset) {
            held.remove(partition);
          } else if (!held.containsKey(partition) || held.get(partition).offset != offset) {
            held.put(partition, new Held(offset, nowMs));
          }
        });
    held.forEach((partition, at) -> tell(partition, at, ends.get(partition), nowMs));
  }

  /** For the query's progress: which transaction holds which partition, and for how long; empty if there is none. */
  Map<String, String> metrics(long nowMs) {
    StringJoiner holders = new StringJoiner(", ");
    held.forEach(
        (partition, at) -> {
          if (at.holder != null) {
            long heldMs = nowMs - at.sinceMs;
            holders.add(at.holder + " holds " + partition + " at " + at.offset + " for " + heldMs + " ms");
          }
        });
    return holders.length() == 0 ? Map.of() : Map.of("openTransactions", holders.toString());
  }

  private void tell(TopicPartition partition, Held at, long end, long nowMs) {
    if (at.holder == null && nowMs - at.sinceMs >= ASK_AFTER_MS) {
      at.holder = ask(partition, at.offset);
    }
    boolean isDue = at.warnedMs == 0 ? nowMs - at.sinceMs >= WARN_AFTER_MS : nowMs - at.warnedMs >= WARN_AGAIN_AFTER_MS;
    if (at.holder != null && isDue) {
      at.warnedMs = nowMs;
      LOG.warn(
          "an open transaction holds back what was committed after it; end its producer, or abort it with "
              + "kafka-transactions; "
              + "transactional id={}, partition={}, last stable offset={}, log end={}, held for={} ms",
          at.holder, partition, at.offset, end, nowMs - at.sinceMs);
    }
  }

  /** The holder, or why it cannot be found, such as a missing permission; that does not stop the read. */
  private String ask(TopicPartition partition, long offset) {
    try {
      return cluster.openTransaction(partition, offset).orElse(null);
    } catch (InterruptedException stopped) {
      throw Problems.<RuntimeException>sneak(stopped);
    } catch (Exception problem) {
      return "(unknown: " + Problems.unwrapped(problem) + ")";
    }
  }
}
