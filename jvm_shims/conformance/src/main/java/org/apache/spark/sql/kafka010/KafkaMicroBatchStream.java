package org.apache.spark.sql.kafka010;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;

/**
 * Replaces Spark's class of the same name, by which its suites find the Kafka source in a query's plan. It passes every
 * call on to oncelog's stream, and converts offsets to the class that the suites compare with.
 */
public final class KafkaMicroBatchStream
    implements MicroBatchStream, SupportsTriggerAvailableNow, ReportsSourceMetrics {
  private final MicroBatchStream oncelog;

  KafkaMicroBatchStream(MicroBatchStream oncelog) {
    this.oncelog = oncelog;
  }

  @Override
  public Offset initialOffset() {
    return new Comparable(oncelog.initialOffset().json());
  }

  @Override
  public ReadLimit getDefaultReadLimit() {
    return ((SupportsTriggerAvailableNow) oncelog).getDefaultReadLimit();
  }

  @Override
  public void prepareForTriggerAvailableNow() {
    ((SupportsTriggerAvailableNow) oncelog).prepareForTriggerAvailableNow();
  }

  @Override
  public Offset latestOffset() {
    return oncelog.latestOffset();
  }

  @Override
  public Offset latestOffset(Offset start, ReadLimit limit) {
    return new Comparable(((SupportsTriggerAvailableNow) oncelog).latestOffset(start, limit).json());
  }

  @Override
  public Offset reportLatestOffset() {
    return ((SupportsTriggerAvailableNow) oncelog).reportLatestOffset();
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    return oncelog.planInputPartitions(start, end);
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return oncelog.createReaderFactory();
  }

  @Override
  public Offset deserializeOffset(String json) {
    return new Comparable(oncelog.deserializeOffset(json).json());
  }

  @Override
  public void commit(Offset end) {
    oncelog.commit(end);
  }

  @Override
  public void stop() {
    oncelog.stop();
  }

  @Override
  public Map<String, String> metrics(Optional<Offset> latestConsumed) {
    return ((ReportsSourceMetrics) oncelog).metrics(latestConsumed);
  }

  @Override
  public String toString() {
    return oncelog.toString();
  }

  /**
   * Spark's offset of the same partitions. It equals the suites' offset for these partitions, whatever else is in
   * oncelog's JSON. It equals another one of oncelog's only if all of their JSON is equal.
   */
  private static final class Comparable extends KafkaSourceOffset {
    private static final JsonMapper MAPPER = new JsonMapper();

    private final String oncelogs;

    Comparable(String oncelogs) {
      super(partitions(oncelogs));
      this.oncelogs = oncelogs;
    }

    @Override
    public String json() {
      return oncelogs;
    }

    @Override
    public boolean equals(Object other) {
      return other instanceof Comparable same
          ? oncelogs.equals(same.oncelogs)
          : other instanceof KafkaSourceOffset expected && partitionToOffsets().equals(expected.partitionToOffsets());
    }

    @Override
    public int hashCode() {
      return partitionToOffsets().hashCode();
    }

    private static scala.collection.immutable.Map<TopicPartition, Object> partitions(String json) {
      try {
        ObjectNode topics = (ObjectNode) MAPPER.readTree(json);
        topics.remove(List.of("@absent", "@topicIds")); // which only oncelog has
        return JsonUtils$.MODULE$.partitionOffsets(topics.toString());
      } catch (JsonProcessingException problem) {
        throw new IllegalArgumentException(problem);
      }
    }
  }
}
