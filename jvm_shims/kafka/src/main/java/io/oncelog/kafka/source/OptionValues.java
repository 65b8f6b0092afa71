package io.oncelog.kafka.source;

import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.function.Function;
import org.apache.spark.network.util.JavaUtils;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The values of a read's options, given by the user or by default. A malformed value is an error that names the option,
 * what was found and what was expected.
 */
final class OptionValues {
  private final CaseInsensitiveStringMap options;
  private final boolean isStream;

  OptionValues(CaseInsensitiveStringMap options, boolean isStream) {
    this.options = options;
    this.isStream = isStream;
  }

  /** All options, also those that are no {@link Option}. */
  Map<String, String> asGiven() {
    return options.asCaseSensitiveMap();
  }

  boolean isGiven(Option option) {
    return options.containsKey(option.text);
  }

  /** The text without the spaces around it; empty if there is neither a value nor a default. */
  String raw(Option option) {
    String given = isGiven(option) ? options.get(option.text) : option.defaultText(isStream).orElse("");
    return Optional.ofNullable(given).orElse("").strip();
  }

  Optional<String> text(Option option) {
    String text = raw(option);
    if (isGiven(option) && text.isEmpty()) {
      throw wrong(option, "a text that is not empty");
    }
    return Optional.of(text).filter(found -> !found.isEmpty());
  }

  boolean flag(Option option) {
    String text = text(option).orElseThrow();
    if (!text.equalsIgnoreCase("true") && !text.equalsIgnoreCase("false")) {
      throw wrong(option, "true or false");
    }
    return Boolean.parseBoolean(text);
  }

  /** A 32-bit number of at least 1. */
  OptionalInt count(Option option) {
    OptionalLong number = number(option, 1, Integer.MAX_VALUE);
    return number.isPresent() ? OptionalInt.of(Math.toIntExact(number.getAsLong())) : OptionalInt.empty();
  }

  OptionalLong positive(Option option) {
    return number(option, 1, Long.MAX_VALUE);
  }

  OptionalLong notNegative(Option option) {
    return number(option, 0, Long.MAX_VALUE);
  }

  private OptionalLong number(Option option, long least, long most) {
    Optional<String> text = text(option);
    if (text.isEmpty()) {
      return OptionalLong.empty();
    }
    try {
      long number = Long.parseLong(text.get());
      if (text.get().matches("[0-9]+") && number >= least && number <= most) {
        return OptionalLong.of(number);
      }
    } catch (NumberFormatException problem) {
      // not a number, or more than 64 bits: the error follows
    }
    throw wrong(option, "a whole number from " + least + " to " + most);
  }

  long durationMs(Option option) {
    String text = text(option).orElseThrow();
    try {
      long ms = JavaUtils.timeStringAsMs(text);
      if (ms >= 0) {
        return ms;
      }
    } catch (NumberFormatException problem) {
      // the error follows
    }
    throw wrong(option, "a duration such as 15m, 30s or 500ms");
  }

  <T> T parse(Option option, Function<String, T> parser) {
    try {
      return parser.apply(raw(option));
    } catch (IllegalArgumentException problem) {
      throw Problems.option("an option has a wrong value: " + problem.getMessage(), "option", option.text);
    }
  }

  IllegalArgumentException wrong(Option option, String expected) {
    return Problems.option(
        "an option has a wrong value", "option", option.text, "found", raw(option), "expected", expected);
  }
}
