package io.oncelog.kafka.source;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.json.JsonMapper;
import io.oncelog.kafka.Names;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.Arrays;
import java.util.Optional;

/**
 * The options of the source, except those that begin with {@code kafka.}.
 *
 * <p>The spelling, default and meaning of each are in {@code options.json} next to this class; {@code make docs} writes
 * docs/reference/options.md from the same file.
 */
enum Option {
  SUBSCRIBE,
  SUBSCRIBE_PATTERN,
  ASSIGN,
  STARTING_OFFSETS,
  STARTING_TIMESTAMP,
  STARTING_OFFSETS_BY_TIMESTAMP,
  STARTING_OFFSETS_BY_TIMESTAMP_STRATEGY,
  ENDING_OFFSETS,
  ENDING_TIMESTAMP,
  ENDING_OFFSETS_BY_TIMESTAMP,
  FAIL_ON_DATA_LOSS,
  MIN_PARTITIONS,
  MAX_RECORDS_PER_PARTITION,
  MAX_OFFSETS_PER_TRIGGER,
  MIN_OFFSETS_PER_TRIGGER,
  MAX_TRIGGER_DELAY,
  INCLUDE_HEADERS,
  WHOLE_BATCHES,
  LEDGER_TOPIC,
  ZNODES,
  GROUP_ID,
  GROUP_ID_PREFIX,
  POLL_TIMEOUT_MS,
  FETCH_OFFSET_RETRIES,
  FETCH_OFFSET_RETRY_INTERVAL_MS;

  /** The documented spelling; users may use any case. */
  final String text;

  private final Optional<String> streamDefault;
  private final Optional<String> batchDefault;

  Option() {
    JsonNode row = Table.ROWS.get(name());
    text = row.get("name").asText();
    streamDefault = Optional.ofNullable(row.get("default")).map(JsonNode::asText);
    batchDefault = Optional.ofNullable(row.get("batchDefault")).map(JsonNode::asText).or(() -> streamDefault);
  }

  /** The text that is used if the option is not given; empty if there is no default. */
  Optional<String> defaultText(boolean isStream) {
    return isStream ? streamDefault : batchDefault;
  }

  static boolean isKnown(String key) {
    return Arrays.stream(values()).anyMatch(name -> name.text.equalsIgnoreCase(key));
  }

  /** The most similar spelling; null if none is similar. */
  static String nearest(String key) {
    return Names.nearest(key, Arrays.stream(values()).map(name -> name.text).toList());
  }

  /** The rows of options.json, by constant. An enum's constructor cannot use the enum's own static fields. */
  static final class Table {
    static final JsonNode ROWS = read();

    private Table() {}

    private static JsonNode read() {
      try (InputStream json = Option.class.getResourceAsStream("options.json")) {
        return new JsonMapper().readTree(json);
      } catch (IOException problem) {
        throw new UncheckedIOException(problem);
      }
    }
  }
}
