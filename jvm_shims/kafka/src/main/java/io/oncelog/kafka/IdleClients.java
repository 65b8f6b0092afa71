package io.oncelog.kafka;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.Iterator;
import java.util.List;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import java.util.function.Predicate;

/**
 * Kafka's clients that wait in this process for their next use, by what they can be used for. A client belongs to
 * whoever took it, until it is given back.
 */
public final class IdleClients<K, C> {
  static final long IDLE_FOR_MS = 5 * 60_000;
  private static final long CHECK_EACH_MS = 30_000;

  private record Idle<K, C>(K key, C client, long size, long sinceMs) {}

  private final String name;
  private final long mostTogether;
  private final Consumer<C> close;
  private final LongSupplier nowMs;

  private final Deque<Idle<K, C>> idle = new ArrayDeque<>(); // oldest first
  private long together;
  private Thread sweeper;

  /**
   * @param name of the thread that closes clients that were idle for too long
   * @param mostTogether the largest sum of their sizes; the oldest are closed first
   * @param close ends a client
   */
  public IdleClients(String name, long mostTogether, Consumer<C> close) {
    this(name, mostTogether, close, () -> System.nanoTime() / 1_000_000);
  }

  IdleClients(String name, long mostTogether, Consumer<C> close, LongSupplier nowMs) {
    this.name = name;
    this.mostTogether = mostTogether;
    this.close = close;
    this.nowMs = nowMs;
  }

  /** Gives a client back; one that failed must be closed instead. */
  public void give(K key, C client, long size) {
    List<C> surplus = new ArrayList<>();
    synchronized (this) {
      idle.addLast(new Idle<>(key, client, size, nowMs.getAsLong()));
      together += size;
      while (together > mostTogether) {
        surplus.add(forgotten(idle.removeFirst()));
      }
      startSweeper();
    }
    surplus.forEach(close);
  }

  /** Takes the newest client with this key that is {@code preferred}, or else the newest one; null if there is none. */
  public synchronized C take(K key, Predicate<C> preferred) {
    Idle<K, C> best = null;
    for (Iterator<Idle<K, C>> each = idle.descendingIterator(); each.hasNext(); ) {
      Idle<K, C> candidate = each.next();
      if (candidate.key().equals(key)) {
        boolean isPreferred = preferred.test(candidate.client());
        best = best == null || isPreferred ? candidate : best;
        if (isPreferred) {
          break;
        }
      }
    }
    if (best == null) {
      return null;
    }
    idle.remove(best);
    return forgotten(best);
  }

  /** Closes those that can no longer be used. */
  public void drop(Predicate<K> isUseless) {
    List<C> dropped = new ArrayList<>();
    synchronized (this) {
      idle.removeIf(one -> isUseless.test(one.key()) && dropped.add(forgotten(one)));
    }
    dropped.forEach(close);
  }

  private C forgotten(Idle<K, C> one) {
    together -= one.size();
    return one.client();
  }

  /** One thread while there are idle clients, none otherwise. */
  private void startSweeper() {
    if (sweeper == null) {
      sweeper = new Thread(this::sweep, name);
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
      List<C> old = new ArrayList<>();
      boolean isLast;
      synchronized (this) {
        while (!idle.isEmpty() && nowMs.getAsLong() - idle.getFirst().sinceMs() > IDLE_FOR_MS) {
          old.add(forgotten(idle.removeFirst()));
        }
        isLast = idle.isEmpty();
        if (isLast) {
          sweeper = null;
        }
      }
      old.forEach(close);
      if (isLast) {
        return;
      }
    }
  }
}
