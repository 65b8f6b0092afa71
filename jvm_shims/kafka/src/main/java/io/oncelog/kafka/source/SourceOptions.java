package io.oncelog.kafka.source;

import io.oncelog.kafka.ClientSettings;
import java.io.Serializable;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;
import java.util.stream.Stream;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The options of a read, parsed and checked: those of Spark's Kafka source, and {@code groupId}. An unknown option is
 * an error, and so is an end for a stream; a batch ignores the options of streams.
 */
final class SourceOptions {
  private final OptionValues values;
  private final boolean isStream;

  final Subscription subscription;
  final Position starting;
  final Position ending;
  final boolean isLatestWithoutMatch;
  final boolean failOnDataLoss;
  final boolean includeHeaders;
  final boolean readsWholeBatches;
  final OptionalInt minPartitions;
  final OptionalLong maxRecordsPerPartition;
  final OptionalLong maxOffsetsPerTrigger;
  final OptionalLong minOffsetsPerTrigger;
  final long maxTriggerDelayMs;
  final Optional<String> ledgerTopic;
  final Optional<String> groupId;
  final int fetchOffsetRetries;
  final long fetchOffsetRetryIntervalMs;
  final long pollTimeoutMs;
  final SortedMap<String, String> clientSettings;

  private SourceOptions(CaseInsensitiveStringMap options, boolean isStream) {
    values = new OptionValues(options, isStream);
    this.isStream = isStream;
    checkNames(options);
    clientSettings = checkedClientSettings(options);
    subscription = parseSubscription();
    failOnDataLoss = values.flag(Option.FAIL_ON_DATA_LOSS);
    includeHeaders = values.flag(Option.INCLUDE_HEADERS);
    readsWholeBatches = values.flag(Option.WHOLE_BATCHES);
    minPartitions = values.count(Option.MIN_PARTITIONS);
    maxRecordsPerPartition = values.positive(Option.MAX_RECORDS_PER_PARTITION);
    maxOffsetsPerTrigger = values.positive(Option.MAX_OFFSETS_PER_TRIGGER);
    minOffsetsPerTrigger = values.positive(Option.MIN_OFFSETS_PER_TRIGGER);
    maxTriggerDelayMs = values.durationMs(Option.MAX_TRIGGER_DELAY);
    ledgerTopic = values.text(Option.LEDGER_TOPIC);
    groupId = values.text(Option.GROUP_ID);
    fetchOffsetRetries = values.count(Option.FETCH_OFFSET_RETRIES).orElseThrow();
    fetchOffsetRetryIntervalMs = values.notNegative(Option.FETCH_OFFSET_RETRY_INTERVAL_MS).orElseThrow();
    pollTimeoutMs = values.positive(Option.POLL_TIMEOUT_MS).orElseThrow();
    isLatestWithoutMatch = parseStrategy();
    starting = parseStarting();
    ending = parseEnding();
    checkTogether();
  }

  static SourceOptions ofStream(CaseInsensitiveStringMap options) {
    return new SourceOptions(options, true);
  }

  static SourceOptions ofBatch(CaseInsensitiveStringMap options) {
    return new SourceOptions(options, false);
  }

  /** The one option that decides the columns. All are checked later, when it is known whether this is a stream. */
  static boolean includesHeaders(CaseInsensitiveStringMap options) {
    return Boolean.parseBoolean(options.getOrDefault(Option.INCLUDE_HEADERS.text, "").strip());
  }

  boolean isReadCommitted() {
    return isolationLevel() == IsolationLevel.READ_COMMITTED;
  }

  IsolationLevel isolationLevel() {
    return IsolationLevel.valueOf(
        clientSettings.get(ConsumerConfig.ISOLATION_LEVEL_CONFIG).trim().toUpperCase(Locale.ROOT));
  }

  /** What Python needs to find the sinks' ledger, as the user gave it. */
  Map<String, String> ledgerOptions() {
    Map<String, String> found = new TreeMap<>(values.asGiven());
    found.keySet().removeIf(name -> !isOfLedger(name));
    return found;
  }

  private static boolean isOfLedger(String name) {
    return name.toLowerCase(Locale.ROOT).startsWith(ClientSettings.PREFIX)
        || name.equalsIgnoreCase(Option.LEDGER_TOPIC.text)
        || name.equalsIgnoreCase(Option.ZNODES.text);
  }

  /** What is read, as the plan in Spark's UI shows it. */
  String description() {
    if (subscription instanceof Subscription.Topics topics) {
      return "subscribe " + String.join(",", topics.names());
    } else if (subscription instanceof Subscription.Matching matching) {
      return "subscribePattern " + matching.pattern();
    }
    return "assign " + ((Subscription.Assigned) subscription).partitions();
  }

  private static void checkNames(CaseInsensitiveStringMap options) {
    for (String key : options.asCaseSensitiveMap().keySet()) {
      if (!Option.isKnown(key) && !key.toLowerCase(Locale.ROOT).startsWith(ClientSettings.PREFIX)) {
        String nearest = Option.nearest(key);
        String text = "unknown option of the source oncelog-kafka";
        throw nearest == null
            ? Problems.option(text, "option", key)
            : Problems.option(text, "option", key, "nearest", nearest);
      }
    }
  }

  // The client's settings ---------------------------------------------------------------------------------------------

  private SortedMap<String, String> checkedClientSettings(CaseInsensitiveStringMap options) {
    SortedMap<String, String> settings = new TreeMap<>(ClientSettings.of(options));
    ClientSettings.warnOfUnknown(settings.keySet());
    refuse(settings, ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "startingOffsets says where a query starts");
    refuse(settings, ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, "keys come as bytes; cast or decode the column");
    refuse(settings, ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG, "values come as bytes; cast or decode the column");
    refuse(
        settings, ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, "offsets are in the checkpoint; for lag tools set groupId");
    refuse(settings, ConsumerConfig.INTERCEPTOR_CLASSES_CONFIG, "an interceptor could change records");
    if (!settings.containsKey(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG)) {
      throw Problems.option("the brokers are not named", "missing", "kafka.bootstrap.servers");
    }
    settings.putIfAbsent(ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed");
    String level = settings.get(ConsumerConfig.ISOLATION_LEVEL_CONFIG).trim().toLowerCase(Locale.ROOT);
    if (!level.equals("read_committed") && !level.equals("read_uncommitted")) {
      throw Problems.option(
          "an option has a wrong value",
          "option", "kafka.isolation.level",
          "found", level,
          "expected", "read_committed or read_uncommitted");
    }
    values.text(Option.GROUP_ID_PREFIX)
        .map(prefix -> prefix + "-" + UUID.randomUUID())
        .ifPresent(group -> settings.putIfAbsent(ConsumerConfig.GROUP_ID_CONFIG, group));
    return settings;
  }

  private static void refuse(Map<String, String> settings, String name, String reason) {
    if (settings.containsKey(name)) {
      throw Problems.option("this setting of Kafka's consumer cannot be given: " + reason, "option", "kafka." + name);
    }
  }

  // Positions ---------------------------------------------------------------------------------------------------------

  private Subscription parseSubscription() {
    long given = Stream.of(Option.SUBSCRIBE, Option.SUBSCRIBE_PATTERN, Option.ASSIGN).filter(values::isGiven).count();
    if (given != 1) {
      throw Problems.option("give exactly one of subscribe, subscribePattern and assign", "given", given);
    }
    if (values.isGiven(Option.SUBSCRIBE)) {
      TreeSet<String> names = new TreeSet<>(Arrays.asList(values.raw(Option.SUBSCRIBE).split("[,\\s]+")));
      names.remove("");
      if (names.isEmpty()) {
        throw values.wrong(Option.SUBSCRIBE, "topic names, separated by commas");
      }
      return new Subscription.Topics(names);
    }
    if (values.isGiven(Option.SUBSCRIBE_PATTERN)) {
      return new Subscription.Matching(values.parse(Option.SUBSCRIBE_PATTERN, SourceOptions::pattern));
    }
    return new Subscription.Assigned(values.parse(Option.ASSIGN, Json::parsePartitions));
  }

  private static Pattern pattern(String text) {
    if (text.isEmpty()) {
      throw new IllegalArgumentException("expected a regular expression for whole topic names");
    }
    try {
      return Pattern.compile(text);
    } catch (PatternSyntaxException problem) {
      throw new IllegalArgumentException("expected a regular expression: " + problem.getDescription(), problem);
    }
  }

  private boolean parseStrategy() {
    String strategy = values.raw(Option.STARTING_OFFSETS_BY_TIMESTAMP_STRATEGY).toLowerCase(Locale.ROOT);
    if (!strategy.equals("error") && !strategy.equals("latest")) {
      throw values.wrong(Option.STARTING_OFFSETS_BY_TIMESTAMP_STRATEGY, "error or latest");
    }
    return strategy.equals("latest");
  }

  private Position parseStarting() {
    Position position =
        parsePosition(Option.STARTING_TIMESTAMP, Option.STARTING_OFFSETS_BY_TIMESTAMP, Option.STARTING_OFFSETS);
    if (!isStream && isOrHas(position, new Position.Latest(), Position.LATEST_OFFSET)) {
      throw values.wrong(Option.STARTING_OFFSETS, "not latest (-1): a batch would read nothing");
    }
    return position;
  }

  private Position parseEnding() {
    Position position =
        parsePosition(Option.ENDING_TIMESTAMP, Option.ENDING_OFFSETS_BY_TIMESTAMP, Option.ENDING_OFFSETS);
    if (isOrHas(position, new Position.Earliest(), Position.EARLIEST_OFFSET) || position instanceof Position.Group) {
      throw values.wrong(Option.ENDING_OFFSETS, "latest, or offsets as JSON without -2");
    }
    return position;
  }

  private Position parsePosition(Option timestamp, Option timestamps, Option offsets) {
    if (values.isGiven(timestamp)) {
      return new Position.AtTimestamp(values.notNegative(timestamp).orElseThrow());
    } else if (values.isGiven(timestamps)) {
      SortedMap<TopicPartition, Long> times =
          values.parse(timestamps, text -> Json.parseNumbers(text, Json.TIMESTAMPS_SHAPE));
      checkLeast(timestamps, times, 0);
      return new Position.AtTimestamps(times);
    }
    switch (values.raw(offsets).toLowerCase(Locale.ROOT)) {
      case "earliest":
        return new Position.Earliest();
      case "latest":
        return new Position.Latest();
      case "group":
        return new Position.Group();
      default:
        SortedMap<TopicPartition, Long> numbers =
            values.parse(offsets, text -> Json.parseNumbers(text, Json.OFFSETS_SHAPE));
        checkLeast(offsets, numbers, Position.EARLIEST_OFFSET);
        return new Position.AtOffsets(numbers);
    }
  }

  private void checkLeast(Option option, Map<TopicPartition, Long> numbers, long least) {
    numbers.forEach(
        (partition, number) -> {
          if (number < least) {
            throw values.wrong(option, "no number below " + least + ", as for " + partition);
          }
        });
  }

  private static boolean isOrHas(Position position, Position named, long standIn) {
    return position.equals(named)
        || position instanceof Position.AtOffsets explicit && explicit.offsets().containsValue(standIn);
  }

  // What fits together ------------------------------------------------------------------------------------------------

  private void checkTogether() {
    if (starting instanceof Position.Group && groupId.isEmpty()) {
      throw Problems.option("startingOffsets=group needs the option groupId", "missing", "groupId");
    }
    checkLedger();
    if (isStream) {
      for (Option end : List.of(Option.ENDING_OFFSETS, Option.ENDING_TIMESTAMP, Option.ENDING_OFFSETS_BY_TIMESTAMP)) {
        if (values.isGiven(end)) {
          throw Problems.option("a stream has no end; use spark.read, or Trigger.AvailableNow", "option", end.text);
        }
      }
    }
    if (minOffsetsPerTrigger.isPresent()
        && maxOffsetsPerTrigger.isPresent()
        && minOffsetsPerTrigger.getAsLong() > maxOffsetsPerTrigger.getAsLong()) {
      throw Problems.option(
          "minOffsetsPerTrigger is above maxOffsetsPerTrigger",
          Option.MIN_OFFSETS_PER_TRIGGER.text, minOffsetsPerTrigger.getAsLong(),
          Option.MAX_OFFSETS_PER_TRIGGER.text, maxOffsetsPerTrigger.getAsLong());
    }
    if (starting instanceof Position.AtOffsets from && ending instanceof Position.AtOffsets to) {
      checkOrder(from.offsets(), to.offsets());
    } else if (starting instanceof Position.AtTimestamps from && ending instanceof Position.AtTimestamps to) {
      checkOrder(from.timestampsMs(), to.timestampsMs());
    } else if (starting instanceof Position.AtTimestamp from
        && ending instanceof Position.AtTimestamp to
        && from.timestampMs() > to.timestampMs()) {
      throw Problems.option("the read starts after its end", "start", from.timestampMs(), "end", to.timestampMs());
    }
  }

  private void checkLedger() {
    for (Option option : List.of(Option.LEDGER_TOPIC, Option.ZNODES)) {
      if (!readsWholeBatches && values.isGiven(option)) {
        throw Problems.option("only a read with wholeBatches=true reads the ledger", "option", option.text);
      }
    }
    if (values.isGiven(Option.LEDGER_TOPIC) && values.isGiven(Option.ZNODES)) {
      throw Problems.option("give one of ledgerTopic and znodes: a ledger has one place");
    }
    if (readsWholeBatches && !isReadCommitted()) {
      throw Problems.option(
          "wholeBatches=true needs committed rows: under read_uncommitted, batches are seen while they are written",
          "option", "kafka.isolation.level");
    }
  }

  private static void checkOrder(Map<TopicPartition, Long> from, Map<TopicPartition, Long> to) {
    if (!from.keySet().equals(to.keySet())) {
      throw Problems.option(
          "start and end name different partitions", "start", from.keySet(), "end", to.keySet());
    }
    from.forEach(
        (partition, start) -> {
          long end = to.get(partition);
          if (start >= 0 && end >= 0 && start > end) {
            throw Problems.option(
                "the read starts after its end", "partition", partition, "start", start, "end", end);
          }
        });
  }

  /** What an executor needs to poll. */
  record Reading(SortedMap<String, String> clientSettings, long pollTimeoutMs, boolean failOnDataLoss)
      implements Serializable {}

  Reading reading() {
    return new Reading(clientSettings, pollTimeoutMs, failOnDataLoss);
  }
}
