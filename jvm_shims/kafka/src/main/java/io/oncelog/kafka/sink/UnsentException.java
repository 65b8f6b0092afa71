package io.oncelog.kafka.sink;

import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;

/** A record that Kafka's client could not send. */
final class UnsentException extends KafkaException {
  private final String place;

  /**
   * @param metadata of the record, as far as the client knows it
   * @param cause what the client says
   */
  UnsentException(RecordMetadata metadata, Exception cause) {
    super("a record could not be sent", cause);
    place = metadata == null ? "" : placeOf(metadata);
  }

  /** The topic of the record and, if the client had chosen one, its partition. */
  String place() {
    return place;
  }

  private static String placeOf(RecordMetadata metadata) {
    String topic = "topic " + metadata.topic();
    return metadata.partition() == RecordMetadata.UNKNOWN_PARTITION
        ? topic
        : topic + ", partition " + metadata.partition();
  }
}
