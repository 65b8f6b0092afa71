package io.oncelog.kafka.sink;

import java.util.regex.Pattern;
import javax.security.auth.login.LoginException;
import org.apache.kafka.common.InvalidRecordException;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.InvalidTimestampException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.InvalidTxnTimeoutException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

/** Why a participant could not be prepared. The driver's Python side turns it into an error. */
final class SinkException extends RuntimeException {
  /** outcomes.py has an error class for each of them. */
  enum Kind {
    INVALID_ROW,
    REFUSED_RECORD,
    WRONG_SETTING,
    RECORD_TOO_LARGE,
    UNKNOWN_TOPIC,
    UNKNOWN_PARTITION,
    NOT_AUTHORISED,
    NO_LOGIN,
    TIMEOUT_TOO_LONG,
    FENCED,
    UNAVAILABLE,
    UNKNOWN_CLIENT,
    FAILED;

    /** Whether another attempt may succeed. */
    boolean isPassing() {
      return this == NO_LOGIN || this == UNAVAILABLE || this == FAILED;
    }
  }

  private final Kind kind;

  private static final Pattern NO_TOPIC = Pattern.compile("Topic \\S+ not present in metadata.*", Pattern.DOTALL);
  private static final Pattern NO_PARTITION =
      Pattern.compile("Partition -?\\d+ of topic \\S+ .*not present in metadata.*", Pattern.DOTALL);

  /** The client has no error class for an offset's topic that it may not read. */
  private static final Pattern NOT_AUTHORISED = Pattern.compile("Unexpected error in .*authorization failed.*");

  SinkException(Kind kind, String message, Throwable cause) {
    super(message, cause);
    this.kind = kind;
  }

  SinkException(Kind kind, String message) {
    this(kind, message, null);
  }

  Kind kind() {
    return kind;
  }

  /** The exception for a failure of Kafka's client. */
  static SinkException of(Throwable problem, String transactionalId) {
    if (problem instanceof SinkException known) {
      return known;
    }
    Throwable root = root(problem);
    String place = problem instanceof UnsentException unsent ? unsent.place() + ", " : "";
    String text = oneLine(root) + " (" + place + "transactional id " + transactionalId + ")";
    return new SinkException(kindOf(root), text, problem);
  }

  /** The first cause with a known kind, or else the innermost one: Kafka's client wraps errors into KafkaExceptions. */
  private static Throwable root(Throwable problem) {
    Throwable innermost = problem;
    for (Throwable cause = problem; cause != null; cause = cause.getCause()) {
      if (kindOf(cause) != Kind.FAILED) {
        return cause;
      }
      innermost = cause;
    }
    return innermost;
  }

  private static Kind kindOf(Throwable problem) {
    String text = String.valueOf(problem.getMessage());
    if (problem instanceof RecordTooLargeException) {
      return Kind.RECORD_TOO_LARGE;
    } else if (problem instanceof InvalidRecordException || problem instanceof InvalidTimestampException) {
      return Kind.REFUSED_RECORD;
    } else if (problem instanceof ConfigException) {
      return Kind.WRONG_SETTING;
    } else if (problem instanceof InvalidTopicException || problem instanceof UnknownTopicOrPartitionException) {
      return Kind.UNKNOWN_TOPIC;
    } else if (problem instanceof AuthorizationException || problem instanceof AuthenticationException) {
      return Kind.NOT_AUTHORISED;
    } else if (problem instanceof LoginException) {
      return Kind.NO_LOGIN;
    } else if (problem instanceof InvalidTxnTimeoutException) {
      return Kind.TIMEOUT_TOO_LONG;
    } else if (problem instanceof ProducerFencedException || problem instanceof InvalidProducerEpochException) {
      return Kind.FENCED;
    } else if (problem instanceof TimeoutException && NO_TOPIC.matcher(text).matches()) {
      return Kind.UNKNOWN_TOPIC;
    } else if (problem instanceof TimeoutException && NO_PARTITION.matcher(text).matches()) {
      return Kind.UNKNOWN_PARTITION;
    } else if (NOT_AUTHORISED.matcher(text).matches()) {
      return Kind.NOT_AUTHORISED;
    } else if (problem instanceof RetriableException) {
      return Kind.UNAVAILABLE;
    }
    return Kind.FAILED;
  }

  private static String oneLine(Throwable problem) {
    return (problem.getClass().getSimpleName() + ": " + problem.getMessage()).replaceAll("\\s+", " ");
  }
}
