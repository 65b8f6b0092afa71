package io.oncelog.kafka.source;

import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.types.StructType;

/** A batch read. Its start and end are determined once, when Spark first plans it. */
final class KafkaBatch implements Batch {
  private final SourceOptions options;
  private final StructType schema;
  private InputPartition[] planned;

  KafkaBatch(SourceOptions options, StructType schema) {
    this.options = options;
    this.schema = schema;
  }

  @Override
  public synchronized InputPartition[] planInputPartitions() {
    if (planned == null) {
      try (Cluster cluster = new Cluster(options)) {
        planned = plan(cluster);
      }
    }
    return planned;
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new RangeReaderFactory(options.reading(), schema);
  }

  private InputPartition[] plan(Cluster cluster) {
    SortedMap<String, Cluster.Topic> topics = cluster.topics();
    TopicWatch.checkNamed(options.subscription, topics);
    Set<TopicPartition> partitions = cluster.partitions(topics);
    Map<TopicPartition, Long> starts = new TreeMap<>(PartitionOrder.BY_NAME);
    starts.putAll(Positions.ofStart(options, cluster).find(partitions));
    Map<TopicPartition, Long> ends = Positions.ofEnd(options, cluster, starts).find(partitions);
    checkOrder(starts, ends);
    Optional<WholeBatches> whole = WholeBatches.of(options);
    if (whole.isPresent()) {
      ends = whole.get().ends(topics, starts, readable(cluster, starts, ends));
    }
    return new Ranges(options, cluster, topics).plan(starts, ends).toArray(new InputPartition[0]);
  }

  /** How far the partitions can be read now, up to {@code ends}, but at least from {@code starts}. */
  private static Map<TopicPartition, Long> readable(
      Cluster cluster, Map<TopicPartition, Long> starts, Map<TopicPartition, Long> ends) {
    Map<TopicPartition, Long> stable = new HashMap<>(cluster.latest(ends.keySet()));
    stable.replaceAll((partition, end) -> Math.max(starts.get(partition), Math.min(end, ends.get(partition))));
    return stable;
  }

  private static void checkOrder(Map<TopicPartition, Long> starts, Map<TopicPartition, Long> ends) {
    starts.forEach(
        (partition, start) -> {
          if (start > ends.get(partition)) {
            throw Problems.option(
                "the read starts after its end", "partition", partition, "start", start, "end", ends.get(partition));
          }
        });
  }
}
