package io.oncelog.kafka.source;

import io.oncelog.kafka.Clients;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.ListTransactionsOptions;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.TransactionListing;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The driver's requests to the brokers. Each is repeated a few times ({@code fetchOffset.numRetries}) before it fails,
 * except if permissions forbid it. Not thread-safe.
 */
final class Cluster implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(Cluster.class);
  private static final String API_TIMEOUT = "default.api.timeout.ms";
  private static final String API_TIMEOUT_MS = "30000";

  /** A topic. One that was deleted and created again has another id. */
  record Topic(String name, String id, int partitions) {}

  private final SourceOptions options;
  private final LedgerTopics ledgerTopics;
  private Admin admin;
  private String id;
  private boolean wasAnswered;
  private Set<String> leftOut = Set.of();

  Cluster(SourceOptions options) {
    this.options = options;
    ledgerTopics = new LedgerTopics(options);
  }

  /** The cluster's id, which never changes. */
  String id() {
    if (id == null) {
      id = ask("the cluster's id cannot be looked up", () -> admin().describeCluster().clusterId().get());
    }
    return id;
  }

  /** The topics of the subscription, by name; for a list of partitions, their topics. A pattern leaves out ledgers. */
  SortedMap<String, Topic> topics() {
    return ask(
        "the topics cannot be looked up",
        () -> {
          SortedMap<String, Topic> found = new TreeMap<>();
          for (Map.Entry<String, KafkaFuture<TopicDescription>> entry :
              admin().describeTopics(names()).topicNameValues().entrySet()) {
            describe(entry.getKey(), entry.getValue())
                .ifPresent(topic -> found.put(topic.name(), topic));
          }
          if (options.subscription instanceof Subscription.Matching) {
            leftOut = ledgerTopics.among(found, admin());
            found.keySet().removeAll(leftOut);
          }
          return found;
        });
  }

  /** Those among {@code partitions} whose topics the last look did not leave out. */
  Set<TopicPartition> withoutLedgers(Set<TopicPartition> partitions) {
    return partitions.stream().filter(one -> !leftOut.contains(one.topic())).collect(Collectors.toSet());
  }

  /** Whether there is a topic that the subscription may leave out. */
  boolean exists(String name) {
    return ask(
        "a topic cannot be looked up",
        () -> describe(name, admin().describeTopics(List.of(name)).topicNameValues().get(name)).isPresent());
  }

  /** The partitions of {@code topics} that the subscription reads. */
  Set<TopicPartition> partitions(Map<String, Topic> topics) {
    if (options.subscription instanceof Subscription.Assigned assigned) {
      return assigned.partitions().stream()
          .filter(p -> topics.containsKey(p.topic()) && p.partition() < topics.get(p.topic()).partitions())
          .collect(Collectors.toCollection(() -> new java.util.TreeSet<>(PartitionOrder.BY_NAME)));
    }
    Set<TopicPartition> all = new java.util.TreeSet<>(PartitionOrder.BY_NAME);
    topics.values().forEach(topic -> {
      for (int number = 0; number < topic.partitions(); number++) {
        all.add(new TopicPartition(topic.name(), number));
      }
    });
    return all;
  }

  /** Where each log begins. */
  Map<TopicPartition, Long> earliest(Collection<TopicPartition> partitions) {
    return offsets(partitions, p -> OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED);
  }

  /** How far each log can be read: to its last stable offset, or under read_uncommitted to its end. */
  Map<TopicPartition, Long> latest(Collection<TopicPartition> partitions) {
    return offsets(partitions, p -> OffsetSpec.latest(), options.isolationLevel());
  }

  /** How far each log can be read, and where it ends with open transactions included. */
  LogEnds ends(Collection<TopicPartition> partitions) {
    Map<TopicPartition, Long> readable = latest(partitions);
    return new LogEnds(
        readable,
        options.isReadCommitted()
            ? offsets(partitions, p -> OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)
            : readable);
  }

  /** The first record at or after each partition's time that a reader of this level sees; -1 if there is none. */
  Map<TopicPartition, Long> atTimes(Map<TopicPartition, Long> timestampsMs, IsolationLevel level) {
    return offsets(timestampsMs.keySet(), p -> OffsetSpec.forTimestamp(timestampsMs.get(p)), level);
  }

  /**
   * What the group has committed for {@code partitions}; null for those without a committed offset. A partition whose
   * offset depends on an undecided transaction is left out, because Kafka's client reports nothing else about it.
   */
  Map<TopicPartition, OffsetAndMetadata> committed(String groupId, Collection<TopicPartition> partitions) {
    return ask(
        "the group's offsets cannot be read",
        () ->
            admin()
                .listConsumerGroupOffsets(
                    Map.of(groupId, new ListConsumerGroupOffsetsSpec().topicPartitions(partitions)),
                    new ListConsumerGroupOffsetsOptions().requireStable(true))
                .partitionsToOffsetAndMetadata(groupId)
                .get());
  }

  /** The same for all {@code partitions}: waits for undecided transactions that contain their offsets. */
  Map<TopicPartition, OffsetAndMetadata> committedStable(String groupId, Collection<TopicPartition> partitions) {
    long patienceMs = Long.parseLong(options.clientSettings.getOrDefault(API_TIMEOUT, API_TIMEOUT_MS));
    long deadlineNs = System.nanoTime() + patienceMs * 1_000_000;
    Map<TopicPartition, OffsetAndMetadata> found = committed(groupId, partitions);
    while (!found.keySet().containsAll(partitions)) {
      if (System.nanoTime() > deadlineNs) {
        throw new IllegalStateException(
            Problems.message(
                "the group's offsets cannot be read: some of them are in an undecided transaction; end its producer, "
                    + "or finish the sink's batch, and start again",
                "group", groupId,
                "waited", patienceMs + " ms"));
      }
      pause();
      found = committed(groupId, partitions);
    }
    return found;
  }

  /** Commits {@code offsets} to the group; does not wait. */
  KafkaFuture<Void> commit(String groupId, Map<TopicPartition, OffsetAndMetadata> offsets) {
    return admin().alterConsumerGroupOffsets(groupId, offsets).all();
  }

  /** The transactional id of the producer whose open transaction begins at {@code offset}, if it can be found. */
  Optional<String> openTransaction(TopicPartition partition, long offset) throws Exception {
    List<ProducerState> producers =
        admin().describeProducers(List.of(partition)).partitionResult(partition).get().activeProducers();
    Optional<ProducerState> holder =
        producers.stream()
            .filter(state -> state.currentTransactionStartOffset().orElse(-1) >= 0)
            .min(Comparator.comparingLong(state -> state.currentTransactionStartOffset().getAsLong()));
    if (holder.isEmpty() || holder.get().currentTransactionStartOffset().getAsLong() > offset) {
      return Optional.empty();
    }
    long producerId = holder.get().producerId();
    return admin()
        .listTransactions(new ListTransactionsOptions().filterProducerIds(List.of(producerId)))
        .all()
        .get()
        .stream()
        .map(TransactionListing::transactionalId)
        .findFirst();
  }

  @Override
  public void close() {
    if (admin != null) {
      admin.close(Duration.ZERO);
      admin = null;
    }
  }

  // Asking ------------------------------------------------------------------------------------------------------------

  private Collection<String> names() throws Exception {
    if (options.subscription instanceof Subscription.Topics topics) {
      return topics.names();
    } else if (options.subscription instanceof Subscription.Matching matching) {
      List<String> names = new ArrayList<>(admin().listTopics().names().get());
      names.removeIf(name -> !matching.pattern().matcher(name).matches());
      return names;
    }
    return ((Subscription.Assigned) options.subscription)
        .partitions().stream().map(TopicPartition::topic).collect(Collectors.toSet());
  }

  /** The topic, or nothing if it does not exist. Whether that is an error depends on whether it existed before. */
  private static Optional<Topic> describe(String name, KafkaFuture<TopicDescription> answer) throws Exception {
    try {
      TopicDescription topic = answer.get();
      return Optional.of(new Topic(name, topic.topicId().toString(), topic.partitions().size()));
    } catch (java.util.concurrent.ExecutionException problem) {
      if (problem.getCause() instanceof UnknownTopicOrPartitionException) {
        return Optional.empty();
      }
      throw problem;
    }
  }

  private Map<TopicPartition, Long> offsets(
      Collection<TopicPartition> partitions, Function<TopicPartition, OffsetSpec> spec, IsolationLevel level) {
    if (partitions.isEmpty()) {
      return Map.of();
    }
    Map<TopicPartition, OffsetSpec> wanted = new HashMap<>();
    partitions.forEach(partition -> wanted.put(partition, spec.apply(partition)));
    return ask(
        "the partitions' offsets cannot be looked up",
        () -> {
          Map<TopicPartition, Long> found = new HashMap<>();
          Map<TopicPartition, ListOffsetsResultInfo> answers =
              admin().listOffsets(wanted, new ListOffsetsOptions(level)).all().get();
          answers.forEach((partition, answer) -> found.put(partition, answer.offset()));
          return found;
        });
  }

  private <T> T ask(String failure, Callable<T> question) {
    for (int attempt = 1; ; attempt++) {
      try {
        T answer = question.call();
        wasAnswered = true;
        return answer;
      } catch (Exception raised) {
        Throwable problem = Problems.unwrapped(raised);
        if (problem instanceof InterruptedException) {
          throw Problems.<RuntimeException>sneak(problem);
        }
        if (configProblem(problem) != null) {
          throw Problems.option("a setting of Kafka's client is wrong", "cause", configProblem(problem).getMessage());
        }
        if (!wasAnswered && problem instanceof TimeoutException) { // the client itself has retried until now
          String silence = "no broker answers; check kafka.bootstrap.servers, and that its brokers can be reached";
          throw Problems.cluster(silence, problem, "read", options.description(), "brokers", brokers());
        }
        if (attempt >= options.fetchOffsetRetries || isFinal(problem)) {
          throw Problems.cluster(
              failure, problem, "read", options.description(), "brokers", brokers(), "tries", attempt);
        }
        LOG.warn("{}, asking again: {}", failure, problem.toString());
        close(); // the next try uses a new client, because the old one may have outdated metadata
        pause();
      }
    }
  }

  private static boolean isFinal(Throwable problem) {
    return problem instanceof AuthorizationException
        || problem instanceof AuthenticationException
        || problem instanceof InvalidTopicException
        || problem instanceof IllegalArgumentException;
  }

  private static ConfigException configProblem(Throwable problem) {
    for (Throwable cause = problem; cause != null; cause = cause.getCause()) {
      if (cause instanceof ConfigException found) {
        return found;
      }
    }
    return null;
  }

  private static Throwable innermost(Throwable problem) {
    Throwable cause = problem;
    while (cause.getCause() != null) {
      cause = cause.getCause();
    }
    return cause;
  }

  void pause() {
    pause(options.fetchOffsetRetryIntervalMs);
  }

  static void pause(long timeMs) {
    try {
      Thread.sleep(timeMs);
    } catch (InterruptedException stopped) {
      throw Problems.<RuntimeException>sneak(stopped);
    }
  }

  private String brokers() {
    return options.clientSettings.get("bootstrap.servers");
  }

  private Admin admin() {
    if (admin == null) {
      admin = connect(options.clientSettings);
    }
    return admin;
  }

  /** A client for questions to the brokers. */
  static Admin connect(Map<String, String> clientSettings) {
    Map<String, Object> settings = new HashMap<>(clientSettings);
    // The admin client's default time-outs are a minute, which is too long to tell a user that no broker answers.
    settings.putIfAbsent(API_TIMEOUT, API_TIMEOUT_MS);
    settings.putIfAbsent("request.timeout.ms", "15000");
    try {
      return Clients.create(settings, Admin::create);
    } catch (KafkaException problem) { // no request was sent yet, so a setting is wrong, such as a key store
      throw new ConfigException(innermost(problem).toString());
    }
  }
}
