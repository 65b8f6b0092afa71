package io.oncelog.kafka.sink;

import java.nio.charset.StandardCharsets;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.spark.sql.catalyst.expressions.XXH64;
import org.apache.spark.unsafe.Platform;

/**
 * A hash of records that does not depend on their order: the sum of the records' hashes. It is a sum and not an
 * exclusive or, so that a record that occurs twice counts twice.
 */
final class ContentHash {
  private static final long SEED = 42L;
  private static final long NULL = 0x9E3779B97F4A7C15L;

  private long sum;

  void add(ProducerRecord<byte[], byte[]> record) {
    long hash = ofBytes(record.topic().getBytes(StandardCharsets.UTF_8), SEED);
    hash = XXH64.hashInt(record.partition() == null ? -1 : record.partition(), hash);
    hash = ofBytes(record.key(), hash);
    hash = ofBytes(record.value(), hash);
    for (Header header : record.headers()) {
      hash = ofBytes(header.value(), ofBytes(header.key().getBytes(StandardCharsets.UTF_8), hash));
    }
    sum += hash;
  }

  long sum() {
    return sum;
  }

  private static long ofBytes(byte[] bytes, long seed) {
    if (bytes == null) {
      return XXH64.hashLong(NULL, seed);
    }
    return XXH64.hashLong(
        bytes.length, XXH64.hashUnsafeBytes(bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length, seed));
  }
}
