package io.oncelog.kafka.sink;

import io.oncelog.kafka.ClientSettings;
import io.oncelog.kafka.Clients;
import java.time.Duration;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.spark.sql.catalyst.InternalRow;

/**
 * One participant of a batch: a transaction that a task opens, fills, and leaves open and prepared.
 *
 * <p>Prepared means: every send succeeded, as many records were acknowledged as rows were sent, the token is part of
 * the transaction, and the client is in no error state. All of this is checked, because {@code flush} does not throw
 * for failed sends, and whoever ends the transaction from outside would commit it without their records. Then the
 * producer is closed with a zero time-out, because a graceful close would abort the transaction.
 */
final class Participant {
  private final SinkSettings settings;
  private final int partition;
  private final String transactionalId;
  private final boolean isFirstAttempt;

  Participant(SinkSettings settings, int partition, int stageAttempt, int attempt) {
    this.settings = settings;
    this.partition = partition;
    String turn = settings.lease() + "." + stageAttempt + "." + attempt;
    this.transactionalId = settings.transactionalIdPrefix() + "-" + partition + "-" + turn;
    this.isFirstAttempt = stageAttempt == 0 && attempt == 0;
  }

  Prepared prepare(Iterator<InternalRow> rows) {
    KafkaProducer<byte[], byte[]> producer = null;
    try {
      producer = open();
      return send(producer, new PlanRows(rows));
    } catch (PlanRows.Failure problem) {
      throw problem.ofThePlan();
    } catch (RuntimeException problem) {
      throw SinkException.of(problem, transactionalId);
    } finally {
      if (producer != null) {
        producer.close(Duration.ZERO);
      }
    }
  }

  private KafkaProducer<byte[], byte[]> open() {
    Map<String, Object> configuration = new HashMap<>();
    settings.producer().forEach((name, value) -> configuration.put(name, ClientSettings.relocated(value)));
    configuration.put(ProducerConfig.TRANSACTIONAL_ID_CONFIG, transactionalId);
    return Clients.create(
        configuration,
        completed -> new KafkaProducer<>(completed, new ByteArraySerializer(), new ByteArraySerializer()));
  }

  private Prepared send(KafkaProducer<byte[], byte[]> producer, Iterator<InternalRow> rows) {
    ProducerInternals internals = new ProducerInternals(producer);
    producer.initTransactions();
    producer.beginTransaction();
    Written written = new Written(internals::topicId);
    Acknowledgements acknowledged = new Acknowledgements(written);
    ContentHash hash = settings.isHashed() ? new ContentHash() : null;
    Rows reader = new Rows(settings);
    String tokenTopic = settings.topic();
    long sent = 0;
    while (rows.hasNext()) {
      ProducerRecord<byte[], byte[]> record = reader.toRecord(rows.next());
      if (hash != null) {
        hash.add(record);
      }
      producer.send(record, acknowledged);
      sent++;
      tokenTopic = tokenTopic == null ? record.topic() : tokenTopic;
      if (acknowledged.failure() != null) {
        break;
      }
    }
    check(acknowledged, internals);
    tokenTopic = tokenTopic == null ? settings.sourceOffsets().keySet().iterator().next() : tokenTopic;
    sendOffsets(producer, tokenTopic);
    producer.flush();
    check(acknowledged, internals);
    if (acknowledged.count() != sent) {
      throw new SinkException(
          SinkException.Kind.FAILED, "sent " + sent + " rows, but " + acknowledged.count() + " were acknowledged");
    }
    return new Prepared(
        transactionalId,
        partition,
        internals.producerId(),
        internals.epoch(),
        internals.isTransactionV2() ? 2 : 1,
        sent,
        hash == null ? 0 : hash.sum(),
        tokenTopic,
        written.topics(),
        isFirstAttempt);
  }

  private void sendOffsets(KafkaProducer<byte[], byte[]> producer, String tokenTopic) {
    producer.sendOffsetsToTransaction(
        Map.of(new TopicPartition(tokenTopic, 0), new OffsetAndMetadata(settings.batchId(), settings.token())),
        group(settings.tokenGroupPrefix() + "-" + partition));
    if (settings.carriesOffsets(partition)) {
      Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
      settings
          .sourceOffsets()
          .forEach(
              (topic, numbers) ->
                  numbers.forEach(
                      (number, offset) ->
                          // The metadata marks these offsets as a sink's, so that the source leaves them alone.
                          offsets.put(
                              new TopicPartition(topic, number), new OffsetAndMetadata(offset, settings.token()))));
      producer.sendOffsetsToTransaction(offsets, group(settings.sourceGroup()));
    }
  }

  /** A group without members: nobody consumes with it, or only Spark's sources, which do not join groups. */
  @SuppressWarnings("removal") // the only way to name such a group; its replacement needs a consumer
  private static ConsumerGroupMetadata group(String groupId) {
    return new ConsumerGroupMetadata(groupId);
  }

  private static void check(Acknowledgements acknowledged, ProducerInternals internals) {
    if (acknowledged.failure() != null) {
      throw new KafkaException("a record could not be sent", acknowledged.failure());
    }
    if (internals.hasError()) {
      throw new KafkaException("the Kafka client is in an error state", internals.lastError());
    }
  }
}
