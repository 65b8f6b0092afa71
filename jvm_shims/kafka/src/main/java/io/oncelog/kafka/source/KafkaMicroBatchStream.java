package io.oncelog.kafka.source;

import io.oncelog.spark.SourceMetrics;
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
import java.util.stream.LongStream;
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
 * A stream's source on the driver: finds how far the logs can be read, and divides what a batch reads into ranges.
 *
 * <p>Spark logs a batch's end before the batch runs. After a crash it asks for the same batch again, with the offsets'
 * JSON and without {@link #latestOffset}. Hence nothing that a plan needs may be kept in memory only.
 */
final class KafkaMicroBatchStream implements MicroBatchStream, SupportsTriggerAvailableNow, ReportsSourceMetrics {
  private static final Logger LOG = LoggerFactory.getLogger(KafkaMicroBatchStream.class);

  /** Between two questions whether the open transaction has ended that a planned batch waits for. */
  private static final long HELD_PAUSE_MS = 500;

  private final SourceOptions options;
  private final StructType schema;
  private final Cluster cluster;
  private final Checkpoint checkpoint;
  private final TopicWatch watch;
  private final OpenTransactions transactions;
  private final Optional<GroupProgress> progress;
  private final Optional<WholeBatches> whole;

  private Map<TopicPartition, Long> latest; // null before the first look at the cluster
  private Map<TopicPartition, Long> ends = Map.of();
  private boolean isAvailableNow;
  private KafkaOffset frozen; // what Trigger.AvailableNow reads up to; null before the first look
  private Long lastTriggerMs; // null before the first trigger, which does not wait

  KafkaMicroBatchStream(SourceOptions options, StructType schema, Checkpoint checkpoint) {
    this.options = options;
    this.schema = schema;
    this.checkpoint = checkpoint;
    cluster = new Cluster(options);
    watch = new TopicWatch(options, checkpoint, cluster::exists);
    transactions = new OpenTransactions(cluster);
    progress = options.groupId.map(group -> new GroupProgress(cluster, group));
    whole = WholeBatches.of(options);
  }

  /** The id of the cluster that it reads. */
  String clusterId() {
    return cluster.id();
  }

  @Override
  public Offset initialOffset() {
    return checkpoint
        .initialOffsets()
        .orElseGet(
            () -> {
              watch.look(cluster.topics(), Set.of(), Set.of());
              Positions start = Positions.ofStart(options, cluster);
              Map<TopicPartition, Long> starts = start.find(cluster.partitions(watch.topics()));
              if (options.starting instanceof Position.Latest) {
                starts = whole(Map.of(), starts);
              }
              KafkaOffset initial = watch.offset(starts, KafkaOffset.NONE);
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
    throw new UnsupportedOperationException("Spark calls latestOffset(start, limit)");
  }

  @Override
  public Offset latestOffset(Offset start, ReadLimit limit) {
    KafkaOffset known = KafkaOffset.of(start);
    SortedMap<String, Cluster.Topic> topics = cluster.topics();
    watch.look(topics, cluster.withoutLedgers(known.partitions().keySet()), known.positions().keySet());
    watch.checkSame(known);
    latest = frozen == null ? readable(known) : leftOf(frozen);
    Map<TopicPartition, Long> from = startsOf(watch.starts(known), latest.keySet());
    if (frozen == null) {
      latest = whole(from, latest);
    }
    if (isAvailableNow && frozen == null) {
      frozen = watch.offset(latest, KafkaOffset.NONE);
    }
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
    if (whole.isPresent() && !to.equals(latest)) {
      to = whole.get().limited(watch.topics(), from, to, latest);
    }
    KafkaOffset end = watch.offset(to, known);
    return end.partitions().isEmpty() ? start : end;
  }

  @Override
  public Offset reportLatestOffset() {
    return latest == null || latest.isEmpty() ? null : watch.offset(latest, KafkaOffset.NONE);
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    KafkaOffset from = KafkaOffset.of(start);
    KafkaOffset to = KafkaOffset.of(end);
    lookAgain(from, to);
    if (latest == null) { // a batch that is replayed
      awaitReadable(watch.ends(to));
    }
    // If a topic was created again since the batch was planned, this batch reads nothing of it; the next one begins it.
    Ranges ranges = new Ranges(options, cluster, watch.topics());
    return ranges.plan(watch.starts(from), watch.ends(to)).toArray(new InputPartition[0]);
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new RangeReaderFactory(options.reading(), schema);
  }

  @Override
  public Offset deserializeOffset(String json) {
    return Json.parseOffset(json);
  }

  /** Spark calls this when the next batch begins, and never for the last batch. */
  @Override
  public void commit(Offset end) {
    progress.ifPresent(group -> group.commit(watch.ends(KafkaOffset.of(end))));
  }

  @Override
  public void stop() {
    cluster.close();
  }

  @Override
  public String toString() {
    return "oncelog-kafka[" + options.description() + "]";
  }

  /** How far behind the query is, under the names of Spark's own source, and which transactions hold it back. */
  @Override
  public Map<String, String> metrics(Optional<Offset> latestConsumed) {
    if (latestConsumed.isEmpty() || latest == null || latest.isEmpty()) {
      return Map.of();
    }
    Map<TopicPartition, Long> consumed = watch.starts(KafkaOffset.of(latestConsumed.get()));
    LongStream behind =
        latest.entrySet().stream()
            .filter(entry -> consumed.containsKey(entry.getKey()))
            .mapToLong(entry -> entry.getValue() - consumed.get(entry.getKey()));
    Map<String, String> metrics = new HashMap<>(SourceMetrics.offsetsBehind(behind));
    metrics.put("offsetsHeldByOpenTransactions", String.valueOf(Admission.backlog(latest, ends)));
    metrics.putAll(transactions.metrics(nowMs()));
    return metrics;
  }

  // Looking at the cluster --------------------------------------------------------------------------------------------

  /** How far each partition can be read now. It never moves backwards, except if a topic was created again. */
  private Map<TopicPartition, Long> readable(KafkaOffset known) {
    Map<TopicPartition, Long> from = watch.starts(known);
    LogEnds found = notShorter(cluster.partitions(watch.topics()), from);
    ends = found.ends();
    transactions.observe(found.readable(), ends, nowMs());
    return found.readableFrom(from);
  }

  /** {@code stable}, or if the query reads whole batches, the last ends up to there that cut none. */
  private Map<TopicPartition, Long> whole(Map<TopicPartition, Long> from, Map<TopicPartition, Long> stable) {
    return whole.map(batches -> batches.ends(watch.topics(), from, stable)).orElse(stable);
  }

  /** What is left of {@code wanted}, without topics that were created again or are not seen now. */
  private Map<TopicPartition, Long> leftOf(KafkaOffset wanted) {
    watch.checkSame(wanted);
    Map<TopicPartition, Long> left = watch.ends(wanted);
    left.keySet().retainAll(cluster.partitions(watch.topics()));
    return left;
  }

  /**
   * Looks at the cluster again before the tasks are created. A topic that was seen when the batch was planned, and is
   * not seen now, keeps its ranges, and its tasks wait for it. A replayed batch was not planned in this process, so it
   * only knows the topics that it sees now.
   */
  private void lookAgain(KafkaOffset from, KafkaOffset to) {
    SortedMap<String, Cluster.Topic> topics = new TreeMap<>(watch.topics());
    topics.putAll(cluster.topics());
    Set<TopicPartition> known = new HashSet<>(from.positions().keySet());
    known.addAll(to.positions().keySet());
    watch.look(topics, cluster.withoutLedgers(to.partitions().keySet()), known);
    watch.checkSame(to);
  }

  /**
   * Waits until all of a batch that is planned again can be read. Its end may be in a transaction that is still open,
   * if Spark's own source planned it, or an operator moved the checkpoint.
   */
  private void awaitReadable(Map<TopicPartition, Long> planned) {
    Set<TopicPartition> there = new HashSet<>(planned.keySet());
    there.retainAll(cluster.partitions(watch.topics()));
    LogEnds found = notShorter(there, planned);
    while (!found.held(planned).isEmpty()) {
      transactions.observe(found.readable(), found.ends(), nowMs());
      Cluster.pause(HELD_PAUSE_MS);
      found = cluster.ends(there);
    }
  }

  /** Where the logs of {@code partitions} end, after a check that none of them lost its end. */
  private LogEnds notShorter(Set<TopicPartition> partitions, Map<TopicPartition, Long> known) {
    LogEnds found = cluster.ends(partitions);
    for (int attempt = 1; attempt < options.fetchOffsetRetries && !found.lost(known).isEmpty(); attempt++) {
      cluster.pause(); // a new leader of a partition may not know the end yet
      found = cluster.ends(partitions);
    }
    for (TopicPartition partition : found.lost(known)) {
      reportShorter(partition, known.get(partition), found.ends().get(partition));
    }
    return found;
  }

  private void reportShorter(TopicPartition partition, long known, long end) {
    Object[] fields = {"topic", partition.topic(), "partition", partition.partition(), "offset", known, "log end", end};
    String text = "the log ends before an offset that was read or planned: it lost its end, or is another log";
    if (options.failOnDataLoss) {
      throw new DataLossException(text, fields);
    }
    LOG.warn("{}; failOnDataLoss is false: waiting until it is that long again", Problems.message(text, fields));
  }

  /** Where each of {@code partitions} continues; new ones begin at their earliest offset. */
  private Map<TopicPartition, Long> startsOf(Map<TopicPartition, Long> known, Set<TopicPartition> partitions) {
    Set<TopicPartition> fresh = new HashSet<>(partitions);
    fresh.removeAll(known.keySet());
    Map<TopicPartition, Long> starts = new HashMap<>(known);
    starts.putAll(cluster.earliest(fresh));
    return starts;
  }

  /** Whether fewer than minOffsetsPerTrigger offsets are available, and maxTriggerDelay is not over. */
  private boolean mustWait(ReadMinRows least, Map<TopicPartition, Long> from) {
    boolean isDue = lastTriggerMs == null || nowMs() - lastTriggerMs >= least.maxTriggerDelayMs();
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
