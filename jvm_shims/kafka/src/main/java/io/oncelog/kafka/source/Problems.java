package io.oncelog.kafka.source;

import io.oncelog.kafka.Secrets;
import java.util.concurrent.ExecutionException;

/** Creates this source's errors: a static text that says what to do, then named values. */
final class Problems {
  private Problems() {}

  /** An error in an option; nothing was read. */
  static IllegalArgumentException option(String text, Object... fields) {
    return new IllegalArgumentException(message(text, fields));
  }

  /** An error in a request to Kafka. */
  static IllegalStateException cluster(String text, Throwable cause, Object... fields) {
    return new IllegalStateException(Secrets.hidden(message(text, fields) + "; cause: " + cause), cause);
  }

  /** {@code text; name=value, name=value}; the fields are names and values in turn. */
  static String message(String text, Object... fields) {
    StringBuilder built = new StringBuilder(text);
    for (int i = 0; i < fields.length; i += 2) {
      built.append(i == 0 ? "; " : ", ").append(fields[i]).append('=').append(fields[i + 1]);
    }
    return Secrets.hidden(built.toString());
  }

  /** The cause of a future's failure. */
  static Throwable unwrapped(Throwable problem) {
    return problem instanceof ExecutionException && problem.getCause() != null ? problem.getCause() : problem;
  }

  /** Throws {@code problem} even if it is checked: Spark recognises its own stop by the bare InterruptedException. */
  @SuppressWarnings("unchecked")
  static <T extends Throwable> RuntimeException sneak(Throwable problem) throws T {
    throw (T) problem;
  }
}
