package io.oncelog.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Map;
import org.apache.kafka.common.security.plain.PlainLoginModule;
import org.junit.jupiter.api.Test;

class ClientSettingsTest {
  @Test
  void settingsLoseTheirPrefixAndOtherOptionsAreLeftOut() {
    Map<String, String> options = Map.of("Kafka.Client.ID", "me", "subscribe", "t", "kafkaConsumer.pollTimeoutMs", "5");

    assertEquals(Map.of("client.id", "me"), ClientSettings.of(options));
  }

  @Test
  void aLoginModuleIsTheOneOfThisJarUnderWhateverNameGuidesGiveIt() {
    String name = PlainLoginModule.class.getName();

    assertEquals(name + " required;", ClientSettings.relocated(name + " required;"));
    assertEquals(name + " required;", ClientSettings.relocated("kafkashaded." + name + " required;"));
  }
}
