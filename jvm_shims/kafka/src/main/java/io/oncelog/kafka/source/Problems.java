package io.oncelog.kafka.source;

import java.util.concurrent.ExecutionException;

/** How this source fails: a static text that says what to do, then the values that matter. */
final class Problems {
  private Problems() {}

  /** An option is wrong; nothing was read. */
  static IllegalArgumentException option(String text, Object... fields) {
    return new IllegalArgumentException(message(text, fields));
  }

  /** Kafka cannot be asked, or does not answer. */
  static IllegalStateException cluster(String text, Throwable cause, Object... fields) {
    return new IllegalStateException(message(text, fields) + "; cause: " + cause, cause);
  }

  /** {@code text; name=value, name=value}, of names and values in turn. */
  static String message(String text, Object... fields) {
    StringBuilder built = new StringBuilder(text);
    for (int i = 0; i < fields.length; i += 2) {
      built.append(i == 0 ? "; " : ", ").append(fields[i]).append('=').append(fields[i + 1]);
    }
    return built.toString();
  }

  /** The cause that a future's failure wraps. */
  static Throwable unwrapped(Throwable problem) {
    return problem instanceof ExecutionException && problem.getCause() != null ? problem.getCause() : problem;
  }

  /** Throws {@code problem}, checked or not: Spark knows its own stop by the very InterruptedException. */
  @SuppressWarnings("unchecked")
  static <T extends Throwable> RuntimeException sneak(Throwable problem) throws T {
    throw (T) problem;
  }
}
