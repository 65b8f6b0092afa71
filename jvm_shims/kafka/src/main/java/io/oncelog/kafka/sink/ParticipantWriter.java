package io.oncelog.kafka.sink;

import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.catalyst.InternalRow;

/**
 * One participant of a batch: a transaction that a task opens, fills, and leaves open and prepared.
 *
 * <p>Prepared means: every send succeeded, as many records were acknowledged as rows were sent, the token is part of
 * the transaction, and the client is in no error state. All of this is checked, because {@code flush} does not throw
 * for failed sends, and whoever ends the transaction from outside would commit it without their records. Then the
 * producer is kept for the next batch, or closed.
 */
final class ParticipantWriter {
  private final SinkSettings settings;
  private final int partition;
  private final String transactionalId;
  private final boolean isFirstAttempt;

  ParticipantWriter(SinkSettings settings, int partition, int stageAttempt, int attempt) {
    this.settings = settings;
    this.partition = partition;
    String turn = settings.lease() + "." + stageAttempt + "." + attempt;
    this.transactionalId = settings.transactionalIdPrefix() + "-" + partition + "-" + turn;
    this.isFirstAttempt = stageAttempt == 0 && attempt == 0;
  }

  Participant prepare(Iterator<InternalRow> rows) {
    TransactionalProducer producer = null;
    try {
      producer = kept();
      if (producer == null) {
        producer = TransactionalProducer.open(settings.producer(), transactionalId);
      }
      Acknowledgements acknowledged = new Acknowledgements(new OffsetRanges(producer::topicId));
      Participant prepared = send(producer, acknowledged, new PlanRows(rows));
      if (isFirstAttempt) {
        ProducerCache.get().give(key(), producer, acknowledged.bufferedBytes(settings.batchSize()));
        producer = null;
      }
      return prepared;
    } catch (PlanRows.Failure problem) {
      throw problem.ofThePlan();
    } catch (RuntimeException problem) {
      throw SinkException.of(problem, transactionalId);
    } finally {
      if (producer != null) {
        producer.close();
      }
    }
  }

  /** The producer of this partition's task in the batch before, if it may go on; else null. */
  private TransactionalProducer kept() {
    return isFirstAttempt ? ProducerCache.get().take(key(), settings.handovers().get(partition)) : null;
  }

  private ProducerCache.Key key() {
    return new ProducerCache.Key(
        settings.producer(), settings.transactionalIdPrefix(), settings.lease(), partition);
  }

  private Participant send(TransactionalProducer producer, Acknowledgements acknowledged, Iterator<InternalRow> rows) {
    ContentHash hash = settings.isHashed() ? new ContentHash() : null;
    Rows reader = new Rows(settings);
    String tokenTopic = settings.topic();
    long sent = 0;
    while (rows.hasNext()) {
      ProducerRecord<byte[], byte[]> record = reader.toRecord(rows.next());
      if (hash != null) {
        hash.add(record);
      }
      producer.awaitPartition(record);
      producer.send(record, acknowledged);
      sent++;
      tokenTopic = tokenTopic == null ? record.topic() : tokenTopic;
      if (acknowledged.failure() != null) {
        break;
      }
    }
    check(acknowledged, producer);
    tokenTopic = tokenTopic == null ? settings.sourceOffsets().keySet().iterator().next() : tokenTopic;
    complete(producer, acknowledged, tokenTopic);
    if (acknowledged.count() != sent) {
      throw new SinkException(
          SinkException.Kind.FAILED, "sent " + sent + " rows, but " + acknowledged.count() + " were acknowledged");
    }
    List<OffsetRanges.Topic> offsetRanges = acknowledged.offsetRanges().topics();
    producer.checkTopics(offsetRanges);
    Handover.Identity identity = producer.identity();
    return new Participant(
        transactionalId,
        partition,
        identity.producerId(),
        identity.epoch(),
        producer.isTransactionV2() ? 2 : 1,
        sent,
        hash == null ? 0 : hash.sum(),
        tokenTopic,
        offsetRanges,
        isFirstAttempt);
  }

  private void complete(TransactionalProducer producer, Acknowledgements acknowledged, String tokenTopic) {
    try (DeletionWatch watch = new DeletionWatch(producer, tokenTopic)) {
      try {
        sendOffsets(producer, tokenTopic);
        producer.flush();
        check(acknowledged, producer);
      } catch (RuntimeException problem) {
        throw watch.reasonOf(problem);
      }
    }
  }

  private void sendOffsets(TransactionalProducer producer, String tokenTopic) {
    producer.sendOffsets(
        Map.of(new TopicPartition(tokenTopic, 0), new OffsetAndMetadata(settings.batchId(), settings.token())),
        settings.tokenGroupPrefix() + "-" + partition);
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
      producer.sendOffsets(offsets, settings.sourceGroup());
    }
  }

  private static void check(Acknowledgements acknowledged, TransactionalProducer producer) {
    if (acknowledged.failure() != null) {
      throw acknowledged.failure();
    }
    producer.check();
  }
}
