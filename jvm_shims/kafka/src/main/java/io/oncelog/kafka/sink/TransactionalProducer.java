package io.oncelog.kafka.sink;

import io.oncelog.kafka.ClientSettings;
import io.oncelog.kafka.Clients;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Kafka's producer of one transactional id, in a transaction that somebody else ends. It is closed with a zero time-out
 * always, because a graceful close would abort the transaction.
 */
final class TransactionalProducer {
  private static final int NOT_ADOPTED = -1;

  private final KafkaProducer<byte[], byte[]> client;
  private final ProducerInternals internals;
  private int metadataVersion = NOT_ADOPTED; // when it was adopted
  private String lastTopic; // that of the last record, because most tasks write to one topic
  private int lastCount; // its partitions

  private TransactionalProducer(KafkaProducer<byte[], byte[]> client) {
    this.client = client;
    this.internals = new ProducerInternals(client);
  }

  /** Opens one, in a new transaction; whatever was open under its id is aborted. */
  static TransactionalProducer open(Map<String, String> settings, String transactionalId) {
    Map<String, Object> configuration = new HashMap<>();
    settings.forEach((name, value) -> configuration.put(name, ClientSettings.relocated(value)));
    configuration.put(ProducerConfig.TRANSACTIONAL_ID_CONFIG, transactionalId);
    KafkaProducer<byte[], byte[]> client =
        Clients.create(
            configuration,
            completed -> new KafkaProducer<>(completed, new ByteArraySerializer(), new ByteArraySerializer()));
    try {
      TransactionalProducer producer = new TransactionalProducer(client);
      client.initTransactions();
      client.beginTransaction();
      return producer;
    } catch (RuntimeException problem) {
      client.close(Duration.ZERO);
      throw problem;
    }
  }

  /** Begins the next transaction, after the coordinator has told somebody else who this producer is in it. */
  void adopt(Handover.Identity following) {
    metadataVersion = internals.requestMetadata();
    internals.adopt(following);
    client.beginTransaction();
  }

  /**
   * Waits until the client knows the partition of a record, or as many partitions of its topic as a row names none of.
   * Otherwise the client would wait for {@code max.block.ms}, although the brokers answer that there is no such thing.
   */
  void awaitPartition(ProducerRecord<byte[], byte[]> record) {
    int wanted = record.partition() == null ? 0 : record.partition();
    if (!record.topic().equals(lastTopic) || wanted >= lastCount) {
      lastCount = internals.awaitPartitions(record.topic(), wanted);
      lastTopic = record.topic();
    }
  }

  void send(ProducerRecord<byte[], byte[]> record, Callback acknowledged) {
    client.send(record, acknowledged);
  }

  /** Adds offsets of a group without members: nobody consumes with it, or only Spark's sources, which do not join. */
  @SuppressWarnings("removal") // the only way to name such a group; its replacement needs a consumer
  void sendOffsets(Map<TopicPartition, OffsetAndMetadata> offsets, String groupId) {
    client.sendOffsetsToTransaction(offsets, new ConsumerGroupMetadata(groupId));
  }

  /** Whether the newest metadata lacks a topic. */
  boolean isAbsent(String topic) {
    return internals.isAbsent(topic);
  }

  /** Grows with each answer of the brokers. */
  int metadataVersion() {
    return internals.metadataVersion();
  }

  /** Has the client ask for a topic; does not wait for the answer. */
  void requestMetadata(String topic) {
    internals.requestMetadata(topic);
  }

  void flush() {
    client.flush();
  }

  /** Throws if the client would refuse to commit: a send failed, or a newer producer fenced it. */
  void check() {
    if (internals.hasError()) {
      throw new KafkaException("the Kafka client is in an error state", internals.lastError());
    }
  }

  Handover.Identity identity() {
    return new Handover.Identity(internals.producerId(), internals.epoch());
  }

  boolean isTransactionV2() {
    return internals.isTransactionV2();
  }

  /** The id of a topic that the producer has just written to; otherwise the client may have forgotten it. */
  String topicId(String topic) {
    return internals.topicId(topic);
  }

  /** Throws if a topic was created again since the client of a kept producer learned its id. */
  void checkTopics(List<OffsetRanges.Topic> topics) {
    if (metadataVersion == NOT_ADOPTED || topics.isEmpty()) {
      return;
    }
    internals.awaitMetadata(metadataVersion);
    for (OffsetRanges.Topic one : topics) {
      String known = topicId(one.topic());
      if (!known.equals(ProducerInternals.NO_TOPIC_ID) && !known.equals(one.topicId())) {
        throw new KafkaException("the topic was deleted and created again: " + one.topic());
      }
    }
  }

  void close() {
    client.close(Duration.ZERO);
  }
}
