package io.oncelog.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class SecretsTest {
  @ParameterizedTest
  @ValueSource(
      strings = {
        "Invalid url in bootstrap.servers: user:s3cr3t@host:9092",
        "brokers=a:1,user:s3cr3t@host:9092",
        "znodes=postgresql://user:s3cr3t@host/db",
        "sasl.jaas.config=a.Module required path=s3cr3t;",
        "a.Module required username=\"u\" password=\"s3cr3t \\\" s3cr3t\";",
        "clientSecret='s3cr3t'",
        "ssl.keystore.key: s3cr3t",
      })
  void aSecretIsHiddenWhereverItStands(String text) {
    assertFalse(Secrets.hidden(text).contains("s3cr3t"), Secrets.hidden(text));
  }

  @Test
  void otherTextsStayAsTheyAre() {
    String text = "the log ends before an offset; topic=a, partition=0, url=https://user@host:1/x, log end=2";

    assertEquals(text, Secrets.hidden(text));
  }
}
