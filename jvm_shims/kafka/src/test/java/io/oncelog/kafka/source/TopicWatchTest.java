package io.oncelog.kafka.source;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.Map;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class TopicWatchTest {
  private static final TopicPartition A0 = new TopicPartition("a", 0);
  private static final TopicPartition B0 = new TopicPartition("b", 0);

  @TempDir Path folder;

  @Test
  void anOffsetInTheFirstTopicsOfAQueryLooksLikeOneOfSparksSource() {
    TopicWatch watch = watch(false);
    watch.look(topics("a", "id of a"), Set.of(), Set.of());

    assertEquals("{\"a\":{\"0\":5}}", watch.offset(Map.of(A0, 5L), KafkaOffset.NONE).json());
  }

  @Test
  void aTopicThatWasCreatedAgainIsBegunAnewAlsoAfterARestart() {
    watch(false).look(topics("a", "id of a"), Set.of(), Set.of());
    KafkaOffset before = new KafkaOffset(Map.of(A0, 5L));
    TopicWatch restarted = watch(false);
    restarted.look(topics("a", "later id"), Set.of(A0), Set.of(A0));

    assertEquals(Map.of(), restarted.starts(before));
    assertEquals(Map.of(), restarted.ends(before));
    KafkaOffset after = restarted.offset(Map.of(A0, 2L), before);
    assertEquals("{\"a\":{\"0\":2},\"@topicIds\":{\"a\":\"later id\"}}", after.json());
    assertEquals(Map.of(A0, 2L), restarted.starts(after));
  }

  @Test
  void aTopicThatWasCreatedAgainStopsAQueryUnlessItWasToldToGoOn() {
    KafkaOffset before = new KafkaOffset(Map.of(A0, 5L));
    watch(true).look(topics("a", "id of a"), Set.of(), Set.of());
    TopicWatch careful = watch(true);
    careful.look(topics("a", "later id"), Set.of(A0), Set.of(A0));
    TopicWatch told = watch(false);
    told.look(topics("a", "later id"), Set.of(A0), Set.of(A0));

    String message = assertThrows(DataLossException.class, () -> careful.checkSame(before)).getMessage();
    assertTrue(message.contains("topic=a, id=later id, id before=id of a"), message);
    told.checkSame(before);
    careful.checkSame(new KafkaOffset(Map.of(A0, 2L), Map.of(), Map.of("a", "later id")));
  }

  @Test
  void aTopicOutOfSightKeepsItsOffsetApartUntilItIsSeenAgain() {
    TopicWatch watch = watch(false);
    watch.look(topics("a", "id of a", "b", "id of b"), Set.of(), Set.of());
    watch.look(topics("a", "id of a"), Set.of(A0, B0), Set.of(A0, B0));
    KafkaOffset without = watch.offset(Map.of(A0, 6L), new KafkaOffset(Map.of(A0, 5L, B0, 9L)));
    assertEquals("{\"a\":{\"0\":6},\"@absent\":{\"b\":{\"0\":9}}}", without.json());

    watch.look(topics("a", "id of a", "b", "id of b"), Set.of(A0), Set.of(A0, B0));
    assertEquals(Map.of(A0, 6L, B0, 9L), watch.starts(without));
    assertEquals("{\"a\":{\"0\":7},\"b\":{\"0\":9}}", watch.offset(Map.of(A0, 7L, B0, 9L), without).json());
  }

  @Test
  void aTopicOutOfSightThatComesBackAsAnotherOneIsBegunAnew() {
    TopicWatch watch = watch(false);
    watch.look(topics("a", "id of a", "b", "id of b"), Set.of(), Set.of());
    watch.look(topics("a", "id of a", "b", "later id"), Set.of(A0), Set.of(A0, B0));

    assertEquals(Map.of(A0, 6L), watch.starts(new KafkaOffset(Map.of(A0, 6L), Map.of(B0, 9L), Map.of())));
  }

  @Test
  void aTopicThatWasNeverThereIsAWrongOptionAndOneThatIsGoneIsLossOfData() {
    assertThrows(IllegalArgumentException.class, () -> watch(true).look(topics(), Set.of(), Set.of()));
    assertThrows(DataLossException.class, () -> watch(true).look(topics(), Set.of(A0), Set.of(A0)));
    watch(false).look(topics(), Set.of(A0), Set.of(A0));
  }

  @Test
  void aTopicThatTheOptionsNoLongerSelectIsNotSaidToBeGone() {
    TopicPartition other = new TopicPartition("c", 0);
    SortedMap<String, Cluster.Topic> seen = topics("a", "id of a");

    DataLossException notSelected =
        assertThrows(DataLossException.class, () -> watch(true).look(seen, Set.of(A0, other), Set.of(A0, other)));
    DataLossException gone =
        assertThrows(DataLossException.class, () -> watch(true).look(seen, Set.of(A0, B0), Set.of(A0, B0)));

    assertTrue(notSelected.getMessage().contains("no longer select; select it again"), notSelected.getMessage());
    assertTrue(gone.getMessage().contains("a topic of the query is gone"), gone.getMessage());
    watch(false).look(seen, Set.of(A0, other), Set.of(A0, other));
  }

  private TopicWatch watch(boolean failOnDataLoss) {
    Map<String, String> given =
        Map.of(
            "kafka.bootstrap.servers", "h:9092",
            "subscribe", "a",
            "failOnDataLoss", String.valueOf(failOnDataLoss));
    SourceOptions options = SourceOptions.ofStream(new CaseInsensitiveStringMap(given));
    return new TopicWatch(options, new Checkpoint(folder.toUri().toString(), new Configuration()), "c"::equals);
  }

  private static SortedMap<String, Cluster.Topic> topics(String... namesAndIds) {
    SortedMap<String, Cluster.Topic> topics = new TreeMap<>();
    for (int i = 0; i < namesAndIds.length; i += 2) {
      topics.put(namesAndIds[i], new Cluster.Topic(namesAndIds[i], namesAndIds[i + 1], 1));
    }
    return topics;
  }
}
