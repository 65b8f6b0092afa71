package io.oncelog.kafka.source;

import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;
import org.apache.kafka.common.TopicPartition;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Turns a batch's starts and ends into the ranges that tasks read. */
final class Ranges {
  private static final Logger LOG = LoggerFactory.getLogger(Ranges.class);

  private final SourceOptions options;
  private final Cluster cluster;
  private final SortedMap<String, Cluster.Topic> topics;

  Ranges(SourceOptions options, Cluster cluster, SortedMap<String, Cluster.Topic> topics) {
    this.options = options;
    this.cluster = cluster;
    this.topics = topics;
  }

  /**
   * The ranges of {@code [from, to)}, split as the options say.
   *
   * @param from where each partition continues; a partition that is missing here is new, and begins at its earliest
   *     offset
   * @param to where each partition ends
   * @throws DataLossException a log begins after its start, and failOnDataLoss is on
   */
  List<OffsetRange> plan(Map<TopicPartition, Long> from, Map<TopicPartition, Long> to) {
    Set<TopicPartition> moving = new HashSet<>(cluster.partitions(topics));
    moving.retainAll(to.keySet());
    moving.removeIf(partition -> to.get(partition).equals(from.get(partition)));
    Map<TopicPartition, Long> earliest = cluster.earliest(moving);
    Executors executors = Executors.now();
    SortedMap<TopicPartition, OffsetRange> ranges = new TreeMap<>(PartitionOrder.BY_NAME);
    earliest.forEach(
        (partition, logStart) -> {
          long wanted = from.getOrDefault(partition, 0L);
          if (logStart > wanted) {
            report(partition, wanted, logStart);
          }
          long end = to.get(partition);
          long start = Math.min(Math.max(wanted, logStart), end);
          String id = topics.get(partition.topic()).id();
          String location = executors.locationOf(partition);
          ranges.put(partition, new OffsetRange(partition.topic(), partition.partition(), id, start, end, location));
        });
    return OffsetRange.split(ranges.values(), options.minPartitions, options.maxRecordsPerPartition);
  }

  private void report(TopicPartition partition, long wanted, long logStart) {
    Object[] fields = {
      "topic", partition.topic(), "partition", partition.partition(), "offset", wanted, "log start", logStart
    };
    String text = "the log begins after the next offset to read: retention or a deletion removed records";
    if (options.failOnDataLoss) {
      throw new DataLossException(text, fields);
    }
    LOG.warn("{}; failOnDataLoss is false: continuing at the log's start", Problems.message(text, fields));
  }
}
