package io.oncelog.kafka.source;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.CompositeReadLimit;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadMaxRows;
import org.apache.spark.sql.connector.read.streaming.ReadMinRows;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.types.StructType;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A stream's source on the driver: says how far the logs can be read, and cuts what a batch reads into ranges.
 *
 * <p>Spark logs a batch's end before the batch runs, and after a crash asks for the same batch again, from the offsets'
 * JSON and without {@link #latestOffset}. Hence nothing that a plan needs may live in memory only.
 */
final class KafkaMicroBatchStream implements MicroBatchStream, SupportsTriggerAvailableNow, ReportsSourceMetrics {
  private static final Logger LOG = LoggerFactory.getLogger(KafkaMicroBatchStream.class);

  private final SourceOptions options;
  private final StructType schema;
  private final Cluster cluster;
  private final Checkpoint checkpoint;
  private final TopicWatch watch;
  private final OpenTransactions transactions;
  private final Optional<GroupProgress> progress;

  private SortedMap<String, Cluster.Topic> topics = new TreeMap<>();
  private Set<String> recreated = Set.of();
  private Map<TopicPartition, Long> latest; // null until first looked at
  private Map<TopicPartition, Long> ends = Map.of();
  private boolean isAvailableNow;
  private Map<TopicPartition, Long> frozen; // what Trigger.AvailableNow reads; null until first looked at
  private long lastTriggerMs;

  KafkaMicroBatchStream(SourceOptions options, StructType schema, Checkpoint checkpoint) {
    this.options = options;
    this.schema = schema;
    this.checkpoint = checkpoint;
    cluster = new Cluster(options);
    watch = new TopicWatch(options, checkpoint);
    transactions = new OpenTransactions(cluster);
    progress = options.groupId.map(group -> new GroupProgress(cluster, group));
  }

  @Override
  public Offset initialOffset() {
    return checkpoint
        .initialOffsets()
        .orElseGet(
            () -> {
              lookForTopics(Set.of());
              Positions positions = new Positions(options, cluster);
              KafkaOffset initial = new KafkaOffset(positions.starting(cluster.partitions(topics)));
              checkpoint.writeInitialOffsets(initial);
              return initial;
            });
  }

  @Override
  public ReadLimit getDefaultReadLimit() {
    List<ReadLimit> limits = new ArrayList<>();
    options.minOffsetsPerTrigger.ifPresent(least -> limits.add(ReadLimit.minRows(least, options.maxTriggerDelayMs)));
    options.maxOffsetsPerTrigger.ifPresent(most -> limits.add(ReadLimit.maxRows(most)));
    return switch (limits.size()) {
      case 0 -> ReadLimit.allAvailable();
      case 1 -> limits.get(0);
      default -> ReadLimit.compositeLimit(limits.toArray(new ReadLimit[0]));
    };
  }

  @Override
  public void prepareForTriggerAvailableNow() {
    isAvailableNow = true;
  }

  @Override
  public Offset latestOffset() {
    throw new UnsupportedOperationException("Spark asks latestOffset(start, limit)");
  }

  @Override
  public Offset latestOffset(Offset start, ReadLimit limit) {
    SortedMap<TopicPartition, Long> known = KafkaOffset.of(start).partitions();
    if (frozen == null) {
      latest = look(known);
      frozen = isAvailableNow ? latest : null;
    }
    Map<TopicPartition, Long> from = startsOf(known, latest.keySet());
    List<ReadLimit> limits =
        limit instanceof CompositeReadLimit several ? Arrays.asList(several.getReadLimits()) : List.of(limit);
    for (ReadLimit each : limits) {
      if (each instanceof ReadMinRows least && !isAvailableNow && mustWait(least, from)) {
        return start;
      }
    }
    Map<TopicPartition, Long> to = latest;
    for (ReadLimit each : limits) {
      if (each instanceof ReadMaxRows most) {
        to = Admission.limit(most.maxRows(), from, to);
      }
    }
    KafkaOffset end = new KafkaOffset(to);
    return end.partitions().isEmpty() ? start : end;
  }

  @Override
  public Offset reportLatestOffset() {
    return latest == null || latest.isEmpty() ? null : new KafkaOffset(latest);
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    SortedMap<TopicPartition, Long> to = KafkaOffset.of(end).partitions();
    SortedMap<TopicPartition, Long> known = KafkaOffset.of(start).partitions();
    if (latest == null) { // a batch that is replayed
      Set<TopicPartition> wanted = new HashSet<>(to.keySet());
      wanted.addAll(known.keySet());
      lookForTopics(wanted);
      checkEnds(to);
    }
    Ranges ranges = new Ranges(options, cluster, topics, recreated);
    return ranges.plan(known, to).toArray(new InputPartition[0]);
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new RangeReaderFactory(options.reading(), schema);
  }

  @Override
  public Offset deserializeOffset(String json) {
    return KafkaOffset.parse(json);
  }

  /** Comes when the next batch begins, and never for the last one. */
  @Override
  public void commit(Offset end) {
    progress.ifPresent(group -> group.commit(KafkaOffset.of(end).partitions()));
  }

  @Override
  public void stop() {
    cluster.close();
  }

  @Override
  public String toString() {
    return "oncelog-kafka[" + options.description() + "]";
  }

  /** How far behind the query is, under the names that Spark's own source uses, and who holds it back. */
  @Override
  public Map<String, String> metrics(Optional<Offset> latestConsumed) {
    if (latestConsumed.isEmpty() || latest == null || latest.isEmpty()) {
      return Map.of();
    }
    Map<TopicPartition, Long> consumed = KafkaOffset.of(latestConsumed.get()).partitions();
    long[] behind =
        latest.entrySet().stream()
            .filter(entry -> consumed.containsKey(entry.getKey()))
            .mapToLong(entry -> Math.max(0, entry.getValue() - consumed.get(entry.getKey())))
            .toArray();
    Map<String, String> metrics = new HashMap<>();
    metrics.put("minOffsetsBehindLatest", String.valueOf(Arrays.stream(behind).min().orElse(0)));
    metrics.put("maxOffsetsBehindLatest", String.valueOf(Arrays.stream(behind).max().orElse(0)));
    metrics.put("avgOffsetsBehindLatest", String.valueOf(Arrays.stream(behind).average().orElse(0)));
    metrics.put("offsetsHeldByOpenTransactions", String.valueOf(Admission.backlog(latest, ends)));
    metrics.putAll(transactions.metrics(nowMs()));
    return metrics;
  }

  // Looking at the cluster --------------------------------------------------------------------------------------------

  private void lookForTopics(Set<TopicPartition> known) {
    topics = cluster.topics();
    recreated = watch.check(topics, known);
  }

  /** How far each partition can be read now. It never goes back, but for a topic that was created again. */
  private Map<TopicPartition, Long> look(SortedMap<TopicPartition, Long> known) {
    lookForTopics(known.keySet());
    Set<TopicPartition> partitions = cluster.partitions(topics);
    Map<TopicPartition, Long> stable = cluster.latest(partitions);
    for (int attempt = 1; attempt < options.fetchOffsetRetries && isBehind(stable, known); attempt++) {
      cluster.pause(); // a new leader of a partition may not know yet how far it is
      stable = cluster.latest(partitions);
    }
    Map<TopicPartition, Long> found = notBehind(stable, known);
    if (options.isReadCommitted()) {
      ends = cluster.ends(partitions);
      transactions.observe(stable, ends, nowMs());
    } else {
      ends = found;
    }
    return found;
  }

  private boolean isBehind(Map<TopicPartition, Long> stable, Map<TopicPartition, Long> known) {
    return stable.entrySet().stream()
        .anyMatch(entry -> !isRecreated(entry.getKey()) && entry.getValue() < known.getOrDefault(entry.getKey(), 0L));
  }

  private Map<TopicPartition, Long> notBehind(Map<TopicPartition, Long> stable, Map<TopicPartition, Long> known) {
    Map<TopicPartition, Long> found = new HashMap<>(stable);
    known.forEach(
        (partition, offset) -> {
          Long end = stable.get(partition);
          if (end != null && end < offset && !isRecreated(partition)) {
            reportShorter(partition, offset, end);
            found.put(partition, offset);
          }
        });
    return found;
  }

  /** A batch that is planned again must still be there as a whole. */
  private void checkEnds(SortedMap<TopicPartition, Long> planned) {
    Set<TopicPartition> there = new HashSet<>(planned.keySet());
    there.retainAll(cluster.partitions(topics));
    Map<TopicPartition, Long> stable = cluster.latest(there);
    for (int attempt = 1; attempt < options.fetchOffsetRetries && isBehind(stable, planned); attempt++) {
      cluster.pause();
      stable = cluster.latest(there);
    }
    notBehind(stable, planned);
  }

  private void reportShorter(TopicPartition partition, long known, long end) {
    Object[] fields = {"topic", partition.topic(), "partition", partition.partition(), "offset", known, "log end", end};
    String text = "the log ends before an offset that was read or planned: it lost its end, or is another log";
    if (options.failOnDataLoss) {
      throw new DataLossException(text, fields);
    }
    LOG.warn("{}; failOnDataLoss is false: waiting until it is that long again", Problems.message(text, fields));
  }

  private boolean isRecreated(TopicPartition partition) {
    return recreated.contains(partition.topic());
  }

  /** Where each of {@code partitions} goes on: new ones begin at their earliest offset. */
  private Map<TopicPartition, Long> startsOf(Map<TopicPartition, Long> known, Set<TopicPartition> partitions) {
    Set<TopicPartition> fresh = new HashSet<>(partitions);
    fresh.removeAll(known.keySet());
    Map<TopicPartition, Long> starts = new HashMap<>(known);
    starts.putAll(cluster.earliest(fresh));
    return starts;
  }

  /** Whether fewer than minOffsetsPerTrigger offsets wait, and not for longer than maxTriggerDelay. */
  private boolean mustWait(ReadMinRows least, Map<TopicPartition, Long> from) {
    boolean isDue = nowMs() - lastTriggerMs >= least.maxTriggerDelayMs();
    if (!isDue && Admission.backlog(from, latest) < least.minRows()) {
      return true;
    }
    lastTriggerMs = nowMs();
    return false;
  }

  private static long nowMs() {
    return System.nanoTime() / 1_000_000;
  }
}
