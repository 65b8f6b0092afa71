package io.oncelog.kafka.source;

import io.oncelog.kafka.IdleClients;
import java.util.SortedMap;
import org.apache.kafka.common.TopicPartition;

/**
 * The idle consumers of this executor. A stream reads the same partitions again and again. A consumer that is kept has
 * already fetched the next records, and needs no new connection, metadata and fetch session.
 */
final class ConsumerCache {
  /** The most idle consumers. Each has a connection and up to one fetch of records. */
  private static final int MOST_IDLE = 64;

  private static final ConsumerCache INSTANCE = new ConsumerCache();

  /** What a consumer can be used for. A topic that was created again has another id. */
  private record Key(SortedMap<String, String> settings, TopicPartition partition, String topicId) {}

  private final IdleClients<Key, PolledPartition> idle =
      new IdleClients<>("oncelog-kafka-idle-consumers", MOST_IDLE, PolledPartition::close);

  static ConsumerCache get() {
    return INSTANCE;
  }

  /** A consumer at the range's start; it belongs to the task until {@link #give}. */
  PolledPartition take(SortedMap<String, String> settings, OffsetRange range) {
    PolledPartition found = idle.take(key(settings, range), consumer -> consumer.position() == range.start());
    PolledPartition consumer = found != null ? found : new PolledPartition(settings, range.topicPartition());
    consumer.seek(range.start());
    return consumer;
  }

  /** Returns a consumer to the cache; one that failed must be closed instead. */
  void give(SortedMap<String, String> settings, OffsetRange range, PolledPartition consumer) {
    idle.give(key(settings, range), consumer, 1);
  }

  private static Key key(SortedMap<String, String> settings, OffsetRange range) {
    return new Key(settings, range.topicPartition(), range.topicId());
  }
}
