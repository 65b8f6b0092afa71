package io.oncelog.kafka.source;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Iterator;
import java.util.SortedMap;
import org.apache.kafka.common.TopicPartition;

/**
 * The idle consumers of this executor. A stream reads the same partitions again and again. A consumer that is kept has
 * already fetched the next records, and needs no new connection, metadata and fetch session.
 */
final class ConsumerCache {
  /** The most idle consumers; the oldest are closed first. Each has a connection and up to one fetch of records. */
  private static final int MOST_IDLE = 64;

  private static final long IDLE_FOR_MS = 5 * 60_000;
  private static final long CHECK_EACH_MS = 30_000;

  private static final ConsumerCache INSTANCE = new ConsumerCache();

  /** What a consumer can be used for. A topic that was created again has another id. */
  private record Key(SortedMap<String, String> settings, TopicPartition partition, String topicId) {}

  private record Idle(Key key, PolledPartition consumer, long sinceMs) {}

  private final Deque<Idle> idle = new ArrayDeque<>(); // oldest first
  private Thread sweeper;

  static ConsumerCache get() {
    return INSTANCE;
  }

  /** A consumer at the range's start; it belongs to the task until {@link #give}. */
  PolledPartition take(SortedMap<String, String> settings, OffsetRange range) {
    PolledPartition found = takeIdle(new Key(settings, range.topicPartition(), range.topicId()), range.start());
    PolledPartition consumer = found != null ? found : new PolledPartition(settings, range.topicPartition());
    consumer.seek(range.start());
    return consumer;
  }

  /** Returns a consumer to the cache; one that failed must be closed instead. */
  void give(SortedMap<String, String> settings, OffsetRange range, PolledPartition consumer) {
    Key key = new Key(settings, range.topicPartition(), range.topicId());
    PolledPartition surplus = null;
    synchronized (this) {
      idle.addLast(new Idle(key, consumer, nowMs()));
      if (idle.size() > MOST_IDLE) {
        surplus = idle.removeFirst().consumer();
      }
      startSweeper();
    }
    if (surplus != null) {
      surplus.close();
    }
  }

  /** A consumer that is at {@code start}, else any consumer of the partition. */
  private synchronized PolledPartition takeIdle(Key key, long start) {
    Idle best = null;
    for (Iterator<Idle> each = idle.descendingIterator(); each.hasNext(); ) {
      Idle candidate = each.next();
      if (candidate.key().equals(key) && (best == null || candidate.consumer().position() == start)) {
        best = candidate;
        if (candidate.consumer().position() == start) {
          break;
        }
      }
    }
    if (best == null) {
      return null;
    }
    idle.remove(best);
    return best.consumer();
  }

  /** One thread while there are idle consumers, none otherwise. */
  private void startSweeper() {
    if (sweeper == null) {
      sweeper = new Thread(this::sweep, "oncelog-kafka-idle-consumers");
      sweeper.setDaemon(true);
      sweeper.start();
    }
  }

  private void sweep() {
    while (true) {
      try {
        Thread.sleep(CHECK_EACH_MS);
      } catch (InterruptedException stopped) {
        // sweep now, and again after the next pause
      }
      Deque<PolledPartition> old = new ArrayDeque<>();
      boolean isLast;
      synchronized (this) {
        while (!idle.isEmpty() && nowMs() - idle.getFirst().sinceMs() > IDLE_FOR_MS) {
          old.add(idle.removeFirst().consumer());
        }
        isLast = idle.isEmpty();
        if (isLast) {
          sweeper = null;
        }
      }
      old.forEach(PolledPartition::close);
      if (isLast) {
        return;
      }
    }
  }

  private static long nowMs() {
    return System.nanoTime() / 1_000_000;
  }
}
