package io.oncelog.kafka.control;

import java.util.LinkedHashSet;
import java.util.Set;
import javax.security.auth.login.LoginException;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.RetriableException;

/** Why a request has no answer. control/process.py has an error class for each kind. */
record Failure(Kind kind, String problem) {
  enum Kind {
    /** No broker answers, or it cannot serve the request now. */
    UNAVAILABLE,
    /** The brokers, or the issuer of its credentials, refuse this client. */
    ACCESS,
    /** The client cannot be created with these settings. */
    SETTINGS,
    /** The client is not the one that this connector was built with. */
    UNKNOWN_CLIENT
  }

  static Failure of(Throwable problem, boolean isOpening) {
    return new Failure(kind(problem, isOpening), texts(problem));
  }

  private static Kind kind(Throwable problem, boolean isOpening) {
    for (Throwable one = problem; one != null; one = one.getCause()) {
      if (one instanceof AuthenticationException
          || one instanceof AuthorizationException
          || one instanceof LoginException) {
        return Kind.ACCESS;
      }
    }
    if (problem instanceof LinkageError) {
      return Kind.UNKNOWN_CLIENT;
    }
    if (problem instanceof RetriableException) {
      return Kind.UNAVAILABLE;
    }
    return isOpening && problem instanceof KafkaException ? Kind.SETTINGS : Kind.ACCESS;
  }

  /** The messages of a chain of causes, each once. */
  private static String texts(Throwable problem) {
    Set<String> found = new LinkedHashSet<>();
    for (Throwable one = problem; one != null; one = one.getCause()) {
      found.add(one.getMessage() == null ? one.getClass().getSimpleName() : one.getMessage());
    }
    return String.join("; ", found);
  }
}
