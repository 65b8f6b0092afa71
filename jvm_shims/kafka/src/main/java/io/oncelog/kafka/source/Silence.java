package io.oncelog.kafka.source;

import java.time.Duration;
import java.util.concurrent.TimeUnit;

/**
 * How long a partition has returned no records: says when to look at its log, and when to give up. The first look is
 * after one second, each further one after twice the time, and the last one at the end. The time that a look takes does
 * not count, because nobody waits for records then. Times are those of {@link System#nanoTime}. Pure.
 */
final class Silence {
  private static final long FIRST_LOOK_NS = TimeUnit.SECONDS.toNanos(1);

  private final long patienceNs;
  private long startNs;
  private long lookAfterNs;

  Silence(long startNs, long patienceMs) {
    this.startNs = startNs;
    patienceNs = TimeUnit.MILLISECONDS.toNanos(patienceMs); // at most Long.MAX_VALUE
    lookAfterNs = Math.min(FIRST_LOOK_NS, patienceNs);
  }

  /** How long to wait for records before the next look. */
  Duration untilLook(long timeNs) {
    return Duration.ofNanos(Math.max(0, lookAfterNs - (timeNs - startNs)));
  }

  boolean isTimeToLook(long timeNs) {
    return timeNs - startNs >= lookAfterNs;
  }

  /** Whether the patience is over, so that the next look is the last one. */
  boolean isOver(long timeNs) {
    return timeNs - startNs >= patienceNs;
  }

  void looked(long fromNs, long toNs) {
    lookAfterNs = Math.min(2 * (fromNs - startNs), patienceNs);
    startNs += toNs - fromNs;
  }
}
