package io.oncelog.kafka.sink;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.Serializable;

/**
 * Whom a coordinator expects under a transactional id after it has committed a transaction, as the driver saw it.
 *
 * @param ended the producer of the committed transaction
 * @param following the producer of the next one, as the coordinator answered to the commit
 */
record Handover(Identity ended, Identity following) implements Serializable {
  /** Both as pairs. */
  static Handover parse(JsonNode pairs) {
    return new Handover(identity(pairs.get(0)), identity(pairs.get(1)));
  }

  private static Identity identity(JsonNode pair) {
    return new Identity(pair.get(0).asLong(), pair.get(1).asInt());
  }

  /** A producer id and epoch, which identify a producer, and at transaction version 2 its transaction too. */
  record Identity(long producerId, int epoch) implements Serializable {}
}
