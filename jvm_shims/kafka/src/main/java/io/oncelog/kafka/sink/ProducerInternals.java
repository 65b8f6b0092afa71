package io.oncelog.kafka.sink;

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import org.apache.kafka.clients.Metadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.AppInfoParser;

/**
 * Reads internals of Kafka's producer: its producer id, epoch and transaction version, whether it is in an error state,
 * and the ids of topics. All reflection on the client is here.
 *
 * <p>KIP-939 will add these to the public API. Until a release has it, an unknown client fails here with a clear error,
 * before any row is sent.
 */
final class ProducerInternals {
  private final Object transactionManager;
  private final Metadata metadata;

  ProducerInternals(KafkaProducer<?, ?> producer) {
    try {
      transactionManager = field("transactionManager").get(producer);
      metadata = (Metadata) field("metadata").get(producer);
    } catch (ReflectiveOperationException | ClassCastException problem) {
      throw unknownClient(problem);
    }
    // Find out now, and not after the rows were sent, whether something is missing.
    hasError();
    isTransactionV2();
    method("lastError");
    method("producerIdAndEpoch");
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

  /** The id of a topic that the producer has just written to; otherwise the client may have forgotten it. */
  String topicId(String topic) {
    return metadata.topicIds().getOrDefault(topic, Uuid.ZERO_UUID).toString();
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
    try {
      return method(name).invoke(transactionManager);
    } catch (ReflectiveOperationException problem) {
      throw unknownClient(problem);
    }
  }

  private Method method(String name) {
    try {
      Method method = transactionManager.getClass().getDeclaredMethod(name);
      method.setAccessible(true);
      return method;
    } catch (ReflectiveOperationException | RuntimeException problem) {
      throw unknownClient(problem);
    }
  }

  private static SinkException unknownClient(Exception problem) {
    return new SinkException(
        SinkException.Kind.UNKNOWN_CLIENT,
        "the Kafka client is not the one that this connector was built with, so it cannot say what it prepared; use "
            + "the connector's own jar unchanged (client found: "
            + AppInfoParser.getVersion()
            + ")",
        problem);
  }
}
