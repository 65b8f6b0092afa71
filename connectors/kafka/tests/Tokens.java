package com.example;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Set;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.UnsupportedCallbackException;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerTokenCallback;

/** A user's provider of tokens, written for Kafka's client under its own name: the token is a file's content. */
public final class Tokens implements AuthenticateCallbackHandler {
  private Path file;

  @Override
  public void configure(Map<String, ?> settings, String mechanism, List<AppConfigurationEntry> login) {
    file = Path.of((String) login.get(0).getOptions().get("file"));
  }

  @Override
  public void handle(Callback[] callbacks) throws IOException, UnsupportedCallbackException {
    for (Callback one : callbacks) {
      if (!(one instanceof OAuthBearerTokenCallback)) {
        throw new UnsupportedCallbackException(one);
      }
      ((OAuthBearerTokenCallback) one).token(new Token(Files.readString(file)));
    }
  }

  @Override
  public void close() {}

  private record Token(String value) implements OAuthBearerToken {
    @Override
    public Set<String> scope() {
      return Set.of("kafka");
    }

    @Override
    public long lifetimeMs() {
      return System.currentTimeMillis() + 600_000;
    }

    @Override
    public String principalName() {
      return "alice";
    }

    @Override
    public Long startTimeMs() {
      return null;
    }
  }
}
