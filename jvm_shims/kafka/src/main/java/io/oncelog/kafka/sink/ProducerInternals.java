package io.oncelog.kafka.sink;

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.internals.ProducerMetadata;
import org.apache.kafka.clients.producer.internals.Sender;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.internals.ProducerIdAndEpoch;

/**
 * Reads internals of Kafka's producer: its producer id, epoch and transaction version, whether it is in an error state,
 * and the ids of topics. It also tells a producer that its transaction is over. All reflection on the client is here.
 *
 * <p>KIP-939 will add these to the public API. Until a release has it, an unknown client fails here with a clear error,
 * before any row is sent.
 */
final class ProducerInternals {
  static final String NO_TOPIC_ID = Uuid.ZERO_UUID.toString();

  /** How long a topic or a partition that was created a moment ago may be unknown to a broker. */
  private static final long ABSENT_FOR_MS = 5_000;

  private static final long METADATA_WITHIN_MS = 60_000; // the client's own default (max.block.ms)

  private final Object clientVersion;
  private final Object transactionManager;
  private final ProducerMetadata metadata;
  private final Sender sender;

  ProducerInternals(KafkaProducer<?, ?> producer) {
    clientVersion = clientVersion(producer);
    try {
      transactionManager = field("transactionManager").get(producer);
      metadata = (ProducerMetadata) field("metadata").get(producer);
      sender = (Sender) field("sender").get(producer);
    } catch (ReflectiveOperationException | ClassCastException problem) {
      throw unknownClient(problem);
    }
    // Find out now, and not after the rows were sent, whether something is missing.
    hasError();
    isTransactionV2();
    method("lastError");
    method("producerIdAndEpoch");
    transition();
    setIdentity();
    method("resetSequenceNumbers");
    method("resetTransactionState");
  }

  long producerId() {
    return ((Number) identity("producerId")).longValue();
  }

  int epoch() {
    return ((Number) identity("epoch")).intValue();
  }

  /** Whether every transaction has its own epoch (transaction.version 2). */
  boolean isTransactionV2() {
    return (boolean) call("isTransactionV2Enabled");
  }

  /** Whether the client would refuse to commit: a send failed, or a newer producer fenced it. */
  boolean hasError() {
    return (boolean) call("hasError");
  }

  RuntimeException lastError() {
    return (RuntimeException) call("lastError");
  }

  /** What the client does itself when the coordinator has answered its commit, with what it answered. */
  void adopt(Handover.Identity following) {
    synchronized (transactionManager) {
      invoke(transition(), state("COMMITTING_TRANSACTION"));
      invoke(setIdentity(), new ProducerIdAndEpoch(following.producerId(), (short) following.epoch()));
      call("resetSequenceNumbers");
      call("resetTransactionState");
    }
  }

  /** Has the client ask for metadata with its next requests; returns what {@link #awaitMetadata} needs. */
  int requestMetadata() {
    return metadata.requestUpdate(true);
  }

  /** Waits for the answer. */
  void awaitMetadata(int version) {
    try {
      metadata.awaitUpdate(version, Time.SYSTEM.timer(METADATA_WITHIN_MS));
    } catch (InterruptedException stopped) {
      throw new InterruptException(stopped);
    }
  }

  /** The id of a topic that the producer has just written to; otherwise the client may have forgotten it. */
  String topicId(String topic) {
    Uuid found = metadata.topicIds().get(topic);
    return found == null ? NO_TOPIC_ID : found.toString();
  }

  /** Whether the newest metadata lacks a topic. */
  boolean isAbsent(String topic) {
    return metadata.fetch().partitionCountForTopic(topic) == null;
  }

  /** Grows with each answer of the brokers. */
  int metadataVersion() {
    return metadata.updateVersion();
  }

  /** Has the client ask for a topic now; returns what {@link #awaitMetadata} needs. */
  int requestMetadata(String topic) {
    metadata.add(topic, System.currentTimeMillis());
    int version = metadata.requestUpdateForTopic(topic);
    sender.wakeup();
    return version;
  }

  /**
   * Waits until the client knows a topic with more than {@code wanted} partitions; returns how many it has.
   *
   * @throws SinkException if the brokers answer for some time that there is no such topic or partition
   */
  int awaitPartitions(String topic, int wanted) {
    long began = System.nanoTime();
    while (true) {
      Integer count = metadata.fetch().partitionCountForTopic(topic);
      if (count != null && wanted < count) {
        return count;
      }
      long waitedMs = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - began);
      if (waitedMs > ABSENT_FOR_MS) {
        throw count == null
            ? new SinkException(SinkException.Kind.UNKNOWN_TOPIC, "Topic " + topic + " does not exist")
            : new SinkException(
                SinkException.Kind.UNKNOWN_PARTITION,
                "Partition " + wanted + " of topic " + topic + " does not exist: it has " + count + " partitions");
      }
      awaitMetadata(requestMetadata(topic));
      metadata.maybeThrowExceptionForTopic(topic);
    }
  }

  private static Field field(String name) throws NoSuchFieldException {
    Field field = KafkaProducer.class.getDeclaredField(name);
    field.setAccessible(true);
    return field;
  }

  private Object identity(String name) {
    try {
      Object pair = call("producerIdAndEpoch");
      Field field = pair.getClass().getField(name);
      field.setAccessible(true);
      return field.get(pair);
    } catch (ReflectiveOperationException problem) {
      throw unknownClient(problem);
    }
  }

  private Object call(String name) {
    return invoke(method(name));
  }

  private Object invoke(Method method, Object... arguments) {
    try {
      return method.invoke(transactionManager, arguments);
    } catch (ReflectiveOperationException problem) {
      throw unknownClient(problem);
    }
  }

  private Method setIdentity() {
    try {
      return method("setProducerIdAndEpoch", ProducerIdAndEpoch.class);
    } catch (NoClassDefFoundError elsewhere) { // before 4.4 the class was in another package
      throw unknownClient(elsewhere);
    }
  }

  private Method transition() {
    return method("transitionTo", state("COMMITTING_TRANSACTION").getClass());
  }

  @SuppressWarnings({"unchecked", "rawtypes"}) // the class of the states is private
  private Enum<?> state(String name) {
    try {
      Class states = Class.forName(transactionManager.getClass().getName() + "$State");
      return Enum.valueOf(states, name);
    } catch (ReflectiveOperationException | RuntimeException problem) {
      throw unknownClient(problem);
    }
  }

  private Method method(String name, Class<?>... parameters) {
    try {
      Method method = transactionManager.getClass().getDeclaredMethod(name, parameters);
      method.setAccessible(true);
      return method;
    } catch (ReflectiveOperationException | RuntimeException problem) {
      throw unknownClient(problem);
    }
  }

  /** The client's version as its metrics have it, in every release; Kafka's class for it has moved between packages. */
  private static Object clientVersion(KafkaProducer<?, ?> producer) {
    return producer.metrics().values().stream()
        .filter(metric -> metric.metricName().group().equals("app-info"))
        .filter(metric -> metric.metricName().name().equals("version"))
        .map(Metric::metricValue)
        .findFirst()
        .orElse("unknown");
  }

  private SinkException unknownClient(Throwable problem) {
    return new SinkException(
        SinkException.Kind.UNKNOWN_CLIENT,
        "the Kafka client is not the one that this connector was built with, so it cannot say what it prepared; use "
            + "the connector's own jar unchanged (client found: "
            + clientVersion
            + ")",
        problem);
  }
}
