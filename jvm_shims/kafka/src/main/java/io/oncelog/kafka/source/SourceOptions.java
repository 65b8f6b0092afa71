package io.oncelog.kafka.source;

import io.oncelog.kafka.ClientSettings;
import java.io.Serializable;
import java.util.Arrays;
import java.util.Comparator;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import java.util.function.Function;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.network.util.JavaUtils;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The options of a read, parsed and checked: those of Spark's Kafka source, and {@code groupId}. An option that nothing
 * reads is an error, and so is the end of a stream; a batch ignores what only streams have.
 */
final class SourceOptions {
  /** Every option, in its documented spelling. The comments become docs/options.md by {@code make docs}. */
  enum Name {
    /** Topics to read, separated by commas. Default: one of these three. */
    SUBSCRIBE("subscribe"),
    /** Reads all topics whose whole name matches, also ones created later. Default: -. */
    SUBSCRIBE_PATTERN("subscribePattern"),
    /** Partitions to read: {"topic":[0,1]}. Default: -. */
    ASSIGN("assign"),
    /**
     * Where a new query starts: earliest, latest, group (what groupId committed), or offsets as JSON, -2 for the
     * earliest and -1 for the latest. A query with a checkpoint goes on where it was. Default: latest; earliest for a
     * batch.
     */
    STARTING_OFFSETS("startingOffsets"),
    /** Starts at the first record at or after this time (ms). Default: -. */
    STARTING_TIMESTAMP("startingTimestamp"),
    /** The same for each partition: {"topic":{"0":1000}}. Default: -. */
    STARTING_OFFSETS_BY_TIMESTAMP("startingOffsetsByTimestamp"),
    /** For a partition without a record at or after the time: error, or latest to start at its end. Default: error. */
    STARTING_OFFSETS_BY_TIMESTAMP_STRATEGY("startingOffsetsByTimestampStrategy"),
    /** Where a batch ends: latest, or offsets as JSON, -1 for the latest. Default: latest. */
    ENDING_OFFSETS("endingOffsets"),
    /** A batch ends before the first record at or after this time (ms). Default: -. */
    ENDING_TIMESTAMP("endingTimestamp"),
    /** The same for each partition. Default: -. */
    ENDING_OFFSETS_BY_TIMESTAMP("endingOffsetsByTimestamp"),
    /**
     * Fails when records to be read are gone, or a topic was deleted or created again; false goes on behind the gap.
     * Default: true.
     */
    FAIL_ON_DATA_LOSS("failOnDataLoss"),
    /** Splits the read into at least about so many tasks. Default: -. */
    MIN_PARTITIONS("minPartitions"),
    /** Most offsets of one task. Default: -. */
    MAX_RECORDS_PER_PARTITION("maxRecordsPerPartition"),
    /**
     * Most offsets of one micro-batch, shared out by what each partition has waiting. A batch read ignores it. Default:
     * -.
     */
    MAX_OFFSETS_PER_TRIGGER("maxOffsetsPerTrigger"),
    /** Waits until so many offsets are there. A batch read ignores it. Default: -. */
    MIN_OFFSETS_PER_TRIGGER("minOffsetsPerTrigger"),
    /** Waits for minOffsetsPerTrigger no longer than this. Default: 15m. */
    MAX_TRIGGER_DELAY("maxTriggerDelay"),
    /** Adds the column headers. Default: false. */
    INCLUDE_HEADERS("includeHeaders"),
    /**
     * A consumer group that a stream commits its progress to, so that lag shows outside Spark, and at whose offsets
     * startingOffsets=group starts. Default: -.
     */
    GROUP_ID("groupId"),
    /** The consumers' group.id is this and a random part; nothing is committed to it. Default: -. */
    GROUP_ID_PREFIX("groupIdPrefix"),
    /** A task fails that gets nothing of its range for so long. Default: 120000. */
    POLL_TIMEOUT_MS("kafkaConsumer.pollTimeoutMs"),
    /** How often the driver asks the brokers before it fails. Default: 3. */
    FETCH_OFFSET_RETRIES("fetchOffset.numRetries"),
    /** Its pause between two tries. Default: 1000. */
    FETCH_OFFSET_RETRY_INTERVAL_MS("fetchOffset.retryIntervalMs");

    final String text;

    Name(String text) {
      this.text = text;
    }
  }

  private static final long DEFAULT_POLL_TIMEOUT_MS = 120_000; // Spark's, by its spark.network.timeout
  private static final long DEFAULT_TRIGGER_DELAY_MS = 15 * 60_000;

  private final CaseInsensitiveStringMap options;
  private final boolean isStream;

  final Subscription subscription;
  final Position starting;
  final Position ending;
  final boolean isLatestWithoutMatch;
  final boolean failOnDataLoss;
  final boolean includeHeaders;
  final OptionalInt minPartitions;
  final OptionalLong maxRecordsPerPartition;
  final OptionalLong maxOffsetsPerTrigger;
  final OptionalLong minOffsetsPerTrigger;
  final long maxTriggerDelayMs;
  final Optional<String> groupId;
  final int fetchOffsetRetries;
  final long fetchOffsetRetryIntervalMs;
  final long pollTimeoutMs;
  final SortedMap<String, String> clientSettings;

  private SourceOptions(CaseInsensitiveStringMap options, boolean isStream) {
    this.options = options;
    this.isStream = isStream;
    checkNames();
    clientSettings = checkedClientSettings();
    subscription = parseSubscription();
    failOnDataLoss = flag(Name.FAIL_ON_DATA_LOSS, true);
    includeHeaders = flag(Name.INCLUDE_HEADERS, false);
    minPartitions = count(Name.MIN_PARTITIONS).map(OptionalInt::of).orElse(OptionalInt.empty());
    maxRecordsPerPartition = optional(positive(Name.MAX_RECORDS_PER_PARTITION));
    maxOffsetsPerTrigger = optional(positive(Name.MAX_OFFSETS_PER_TRIGGER));
    minOffsetsPerTrigger = optional(positive(Name.MIN_OFFSETS_PER_TRIGGER));
    maxTriggerDelayMs = duration(Name.MAX_TRIGGER_DELAY, DEFAULT_TRIGGER_DELAY_MS);
    groupId = text(Name.GROUP_ID);
    fetchOffsetRetries = count(Name.FETCH_OFFSET_RETRIES).orElse(3);
    fetchOffsetRetryIntervalMs = notNegative(Name.FETCH_OFFSET_RETRY_INTERVAL_MS).orElse(1_000L);
    pollTimeoutMs = positive(Name.POLL_TIMEOUT_MS).orElse(DEFAULT_POLL_TIMEOUT_MS);
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

  /** What decides the columns. All options are checked when it is known whether this is a stream. */
  static boolean includesHeaders(CaseInsensitiveStringMap options) {
    return Boolean.parseBoolean(options.getOrDefault(Name.INCLUDE_HEADERS.text, "").strip());
  }

  boolean isReadCommitted() {
    return isolationLevel() == IsolationLevel.READ_COMMITTED;
  }

  IsolationLevel isolationLevel() {
    return IsolationLevel.valueOf(
        clientSettings.get(ConsumerConfig.ISOLATION_LEVEL_CONFIG).trim().toUpperCase(Locale.ROOT));
  }

  /** What is read, for people: the node of the plan in Spark's pages. */
  String description() {
    if (subscription instanceof Subscription.Topics topics) {
      return "subscribe " + String.join(",", topics.names());
    } else if (subscription instanceof Subscription.Matching matching) {
      return "subscribePattern " + matching.pattern();
    }
    return "assign " + ((Subscription.Assigned) subscription).partitions();
  }

  // Names -------------------------------------------------------------------------------------------------------------

  private void checkNames() {
    for (String key : options.asCaseSensitiveMap().keySet()) {
      boolean isKnown = Arrays.stream(Name.values()).anyMatch(name -> name.text.equalsIgnoreCase(key));
      if (!isKnown && !key.toLowerCase(Locale.ROOT).startsWith(ClientSettings.PREFIX)) {
        throw Problems.option("unknown option of the source oncelog-kafka", "option", key, "nearest", nearest(key));
      }
    }
  }

  /** The name that is the fewest changes away. */
  private static String nearest(String key) {
    return Arrays.stream(Name.values())
        .map(name -> name.text)
        .min(Comparator.comparingInt(name -> changes(name.toLowerCase(Locale.ROOT), key.toLowerCase(Locale.ROOT))))
        .orElseThrow();
  }

  /** Levenshtein's distance. */
  private static int changes(String one, String other) {
    int[] row = new int[other.length() + 1];
    Arrays.setAll(row, i -> i);
    for (int i = 1; i <= one.length(); i++) {
      int diagonal = row[0];
      row[0] = i;
      for (int j = 1; j <= other.length(); j++) {
        int above = row[j];
        int replaced = diagonal + (one.charAt(i - 1) == other.charAt(j - 1) ? 0 : 1);
        row[j] = Math.min(replaced, 1 + Math.min(above, row[j - 1]));
        diagonal = above;
      }
    }
    return row[other.length()];
  }

  // The client's settings ---------------------------------------------------------------------------------------------

  private SortedMap<String, String> checkedClientSettings() {
    SortedMap<String, String> settings = new TreeMap<>(ClientSettings.of(options));
    refuse(settings, ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "where a query starts is said by startingOffsets");
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
      throw wrong("kafka.isolation.level", level, "read_committed or read_uncommitted");
    }
    text(Name.GROUP_ID_PREFIX)
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
    long given =
        java.util.stream.Stream.of(Name.SUBSCRIBE, Name.SUBSCRIBE_PATTERN, Name.ASSIGN).filter(this::isGiven).count();
    if (given != 1) {
      throw Problems.option("exactly one of subscribe, subscribePattern and assign says what to read", "given", given);
    }
    if (isGiven(Name.SUBSCRIBE)) {
      TreeSet<String> names = new TreeSet<>(Arrays.asList(raw(Name.SUBSCRIBE).split("[,\\s]+")));
      names.remove("");
      if (names.isEmpty()) {
        throw wrong(Name.SUBSCRIBE.text, raw(Name.SUBSCRIBE), "topic names, separated by commas");
      }
      return new Subscription.Topics(names);
    }
    if (isGiven(Name.SUBSCRIBE_PATTERN)) {
      return new Subscription.Matching(parse(Name.SUBSCRIBE_PATTERN, SourceOptions::pattern));
    }
    return new Subscription.Assigned(parse(Name.ASSIGN, Json::parsePartitions));
  }

  private static Pattern pattern(String text) {
    if (text.isEmpty()) {
      throw new IllegalArgumentException("expected a regular expression that whole topic names match");
    }
    try {
      return Pattern.compile(text);
    } catch (PatternSyntaxException problem) {
      throw new IllegalArgumentException("expected a regular expression: " + problem.getDescription(), problem);
    }
  }

  private boolean parseStrategy() {
    String strategy = text(Name.STARTING_OFFSETS_BY_TIMESTAMP_STRATEGY).orElse("error").toLowerCase(Locale.ROOT);
    if (!strategy.equals("error") && !strategy.equals("latest")) {
      throw wrong(Name.STARTING_OFFSETS_BY_TIMESTAMP_STRATEGY.text, strategy, "error or latest");
    }
    return strategy.equals("latest");
  }

  private Position parseStarting() {
    Position position =
        parsePosition(
            Name.STARTING_TIMESTAMP,
            Name.STARTING_OFFSETS_BY_TIMESTAMP,
            Name.STARTING_OFFSETS,
            isStream ? new Position.Latest() : new Position.Earliest());
    if (!isStream && isOrHas(position, new Position.Latest(), Position.LATEST_OFFSET)) {
      throw wrong(
          Name.STARTING_OFFSETS.text, raw(Name.STARTING_OFFSETS), "not latest (-1): a batch would read nothing");
    }
    return position;
  }

  private Position parseEnding() {
    Position position =
        parsePosition(
            Name.ENDING_TIMESTAMP, Name.ENDING_OFFSETS_BY_TIMESTAMP, Name.ENDING_OFFSETS, new Position.Latest());
    if (isOrHas(position, new Position.Earliest(), Position.EARLIEST_OFFSET) || position instanceof Position.Group) {
      throw wrong(Name.ENDING_OFFSETS.text, raw(Name.ENDING_OFFSETS), "latest, or offsets as JSON without -2");
    }
    return position;
  }

  private Position parsePosition(Name timestamp, Name timestamps, Name offsets, Position otherwise) {
    if (isGiven(timestamp)) {
      return new Position.AtTimestamp(notNegative(timestamp).orElseThrow());
    } else if (isGiven(timestamps)) {
      SortedMap<TopicPartition, Long> times = parse(timestamps, text -> Json.parseNumbers(text, Json.TIMESTAMPS_SHAPE));
      checkLeast(timestamps, times, 0);
      return new Position.AtTimestamps(times);
    } else if (!isGiven(offsets)) {
      return otherwise;
    }
    switch (raw(offsets).toLowerCase(Locale.ROOT)) {
      case "earliest":
        return new Position.Earliest();
      case "latest":
        return new Position.Latest();
      case "group":
        return new Position.Group();
      default:
        SortedMap<TopicPartition, Long> numbers = parse(offsets, text -> Json.parseNumbers(text, Json.OFFSETS_SHAPE));
        checkLeast(offsets, numbers, Position.EARLIEST_OFFSET);
        return new Position.AtOffsets(numbers);
    }
  }

  private void checkLeast(Name name, Map<TopicPartition, Long> numbers, long least) {
    numbers.forEach(
        (partition, number) -> {
          if (number < least) {
            throw wrong(name.text, raw(name), "no number below " + least + ", as for " + partition);
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
      throw Problems.option("startingOffsets=group starts at what a group committed; name it", "missing", "groupId");
    }
    if (isStream) {
      for (Name name : new Name[] {Name.ENDING_OFFSETS, Name.ENDING_TIMESTAMP, Name.ENDING_OFFSETS_BY_TIMESTAMP}) {
        if (isGiven(name)) {
          throw Problems.option("a stream has no end; use spark.read, or Trigger.AvailableNow", "option", name.text);
        }
      }
    }
    if (minOffsetsPerTrigger.isPresent()
        && maxOffsetsPerTrigger.isPresent()
        && minOffsetsPerTrigger.getAsLong() > maxOffsetsPerTrigger.getAsLong()) {
      throw Problems.option(
          "minOffsetsPerTrigger is above maxOffsetsPerTrigger",
          Name.MIN_OFFSETS_PER_TRIGGER.text, minOffsetsPerTrigger.getAsLong(),
          Name.MAX_OFFSETS_PER_TRIGGER.text, maxOffsetsPerTrigger.getAsLong());
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

  // Readers of values -------------------------------------------------------------------------------------------------

  private boolean isGiven(Name name) {
    return options.containsKey(name.text);
  }

  private String raw(Name name) {
    return Optional.ofNullable(options.get(name.text)).orElse("").strip();
  }

  private Optional<String> text(Name name) {
    if (isGiven(name) && raw(name).isEmpty()) {
      throw wrong(name.text, "", "a text that is not empty");
    }
    return isGiven(name) ? Optional.of(raw(name)) : Optional.empty();
  }

  private boolean flag(Name name, boolean otherwise) {
    return text(name)
        .map(
            text -> {
              if (!text.equalsIgnoreCase("true") && !text.equalsIgnoreCase("false")) {
                throw wrong(name.text, text, "true or false");
              }
              return Boolean.parseBoolean(text);
            })
        .orElse(otherwise);
  }

  private Optional<Integer> count(Name name) {
    return number(name, 1, Integer.MAX_VALUE, "a whole number above 0, of 32 bits").map(Math::toIntExact);
  }

  private Optional<Long> positive(Name name) {
    return number(name, 1, Long.MAX_VALUE, "a whole number above 0");
  }

  private Optional<Long> notNegative(Name name) {
    return number(name, 0, Long.MAX_VALUE, "a whole number, 0 or above");
  }

  private Optional<Long> number(Name name, long least, long most, String expected) {
    return text(name)
        .map(
            text -> {
              if (!text.matches("[0-9]{1,18}") || Long.parseLong(text) < least || Long.parseLong(text) > most) {
                throw wrong(name.text, text, expected);
              }
              return Long.parseLong(text);
            });
  }

  private long duration(Name name, long otherwiseMs) {
    return text(name)
        .map(
            text -> {
              String expected = "a duration such as 15m, 30s or 500ms";
              try {
                long ms = JavaUtils.timeStringAsMs(text);
                if (ms < 0) {
                  throw wrong(name.text, text, expected);
                }
                return ms;
              } catch (NumberFormatException problem) {
                throw wrong(name.text, text, expected);
              }
            })
        .orElse(otherwiseMs);
  }

  private <T> T parse(Name name, Function<String, T> parser) {
    try {
      return parser.apply(raw(name));
    } catch (IllegalArgumentException problem) {
      throw Problems.option("an option has a wrong value: " + problem.getMessage(), "option", name.text);
    }
  }

  private static IllegalArgumentException wrong(String name, Object found, String expected) {
    return Problems.option("an option has a wrong value", "option", name, "found", found, "expected", expected);
  }

  private static OptionalLong optional(Optional<Long> value) {
    return value.map(OptionalLong::of).orElse(OptionalLong.empty());
  }

  /** What an executor needs to poll. */
  record Reading(SortedMap<String, String> clientSettings, long pollTimeoutMs, boolean failOnDataLoss)
      implements Serializable {}

  Reading reading() {
    return new Reading(clientSettings, pollTimeoutMs, failOnDataLoss);
  }
}
