package io.oncelog.kafka.control;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.message.DescribeProducersRequestData;
import org.apache.kafka.common.message.DescribeProducersRequestData.TopicRequest;
import org.apache.kafka.common.message.DescribeProducersRequestData.TopicRequestCollection;
import org.apache.kafka.common.message.MetadataRequestData;
import org.apache.kafka.common.message.MetadataRequestData.MetadataRequestTopic;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.DescribeProducersRequest;
import org.apache.kafka.common.requests.DescribeProducersResponse;
import org.apache.kafka.common.requests.FetchRequest;
import org.apache.kafka.common.requests.FetchResponse;
import org.apache.kafka.common.requests.MetadataRequest;
import org.apache.kafka.common.requests.MetadataResponse;

/**
 * Asks the leaders of partitions which transactions are open there, and whether written rows are still there. Leaders
 * are remembered until one of them refuses.
 */
final class Leaders {
  private static final String NONE = Errors.NONE.name();
  private static final long NO_TRANSACTION = -1;

  private final Wire wire;
  private final Map<TopicPartition, Node> leaders = new HashMap<>();

  /**
   * A partition to ask.
   *
   * @param topicId null if only its open transactions are asked for
   * @param end the offset after the last row
   */
  private record Wanted(TopicPartition partition, Uuid topicId, long end) {}

  Leaders(Wire wire) {
    this.wire = wire;
  }

  /** For each partition, in this order: what its leader knows, or the name of an error. */
  List<Object> states(JsonNode partitions) {
    List<Wanted> wanted = new ArrayList<>();
    for (JsonNode one : partitions) {
      TopicPartition partition = new TopicPartition(one.get("topic").asText(), one.get("partition").asInt());
      Uuid topicId = one.get("topicId").isNull() ? null : Uuid.fromString(one.get("topicId").asText());
      wanted.add(new Wanted(partition, topicId, one.get("end").asLong()));
    }
    Map<TopicPartition, Object> found = new HashMap<>(findLeaders(wanted));
    Map<Node, List<Wanted>> led = new LinkedHashMap<>();
    for (Wanted one : wanted) {
      if (!found.containsKey(one.partition())) {
        led.computeIfAbsent(leaders.get(one.partition()), node -> new ArrayList<>()).add(one);
      }
    }
    led.forEach((leader, some) -> ask(leader, some, found));
    List<Object> answers = new ArrayList<>();
    for (Wanted one : wanted) {
      Object answer = found.get(one.partition());
      if (answer instanceof String) {
        leaders.remove(one.partition());
      }
      answers.add(answer);
    }
    return answers;
  }

  /** Looks up the leaders that are not known. Returns the errors of those that were not found. */
  private Map<TopicPartition, String> findLeaders(List<Wanted> wanted) {
    Map<TopicPartition, String> absent = new HashMap<>();
    Set<String> topics = new HashSet<>();
    for (Wanted one : wanted) {
      if (!leaders.containsKey(one.partition())) {
        absent.put(one.partition(), Errors.LEADER_NOT_AVAILABLE.name());
        topics.add(one.partition().topic());
      }
    }
    if (topics.isEmpty()) {
      return absent;
    }
    var data = new MetadataRequestData().setAllowAutoTopicCreation(false);
    topics.forEach(topic -> data.topics().add(new MetadataRequestTopic().setName(topic)));
    MetadataResponse answer = (MetadataResponse) wire.ask(null, new MetadataRequest.Builder(data));
    for (var topic : answer.data().topics()) {
      String error = Errors.forCode(topic.errorCode()).name();
      for (var one : topic.partitions()) {
        Node leader = answer.brokersById().get(one.leaderId());
        if (leader != null) {
          leaders.put(new TopicPartition(topic.name(), one.partitionIndex()), leader);
        }
      }
      absent.replaceAll((one, known) -> one.topic().equals(topic.name()) && !error.equals(NONE) ? error : known);
    }
    absent.keySet().removeAll(leaders.keySet());
    return absent;
  }

  private void ask(Node leader, List<Wanted> some, Map<TopicPartition, Object> found) {
    try {
      Map<TopicPartition, Object> starts = starts(leader, some);
      describeProducers(leader, some, starts, found);
    } catch (RetriableException problem) {
      some.forEach(one -> found.put(one.partition(), Errors.NETWORK_EXCEPTION.name()));
    }
  }

  /** Where the logs begin, or the names of errors, by asking for what committed readers find after the rows. */
  private Map<TopicPartition, Object> starts(Node leader, List<Wanted> some) {
    Map<TopicPartition, FetchRequest.PartitionData> rows = new LinkedHashMap<>();
    Map<Uuid, String> names = new HashMap<>();
    boolean isById = true;
    for (Wanted one : some) {
      if (one.topicId() != null) {
        rows.put(
            one.partition(),
            new FetchRequest.PartitionData(
                one.topicId(), one.end(), FetchRequest.INVALID_LOG_START_OFFSET, 1, Optional.empty()));
        names.put(one.topicId(), one.partition().topic());
        isById &= !one.topicId().equals(Uuid.ZERO_UUID);
      }
    }
    Map<TopicPartition, Object> found = new HashMap<>();
    if (rows.isEmpty()) {
      return found;
    }
    short latest = isById ? ApiKeys.FETCH.latestVersion() : 12; // the last version that names topics
    var request =
        FetchRequest.Builder.forConsumer(latest, 0, 0, rows)
            .isolationLevel(IsolationLevel.READ_COMMITTED)
            .setMaxBytes(1);
    var answer = ((FetchResponse) wire.ask(leader, request)).data();
    rows.keySet().forEach(one -> found.put(one, Errors.forCode(answer.errorCode()).name()));
    for (var topic : answer.responses()) {
      String name = topic.topic().isEmpty() ? names.get(topic.topicId()) : topic.topic();
      for (var one : topic.partitions()) {
        boolean isThere = one.errorCode() == Errors.NONE.code();
        Object start = isThere ? (Object) one.logStartOffset() : Errors.forCode(one.errorCode()).name();
        found.put(new TopicPartition(name, one.partitionIndex()), start);
      }
    }
    return found;
  }

  private void describeProducers(
      Node leader, List<Wanted> some, Map<TopicPartition, Object> starts, Map<TopicPartition, Object> found) {
    Map<String, TopicRequest> topics = new LinkedHashMap<>();
    for (Wanted one : some) {
      topics
          .computeIfAbsent(one.partition().topic(), name -> new TopicRequest().setName(name))
          .partitionIndexes()
          .add(one.partition().partition());
    }
    var data = new DescribeProducersRequestData().setTopics(new TopicRequestCollection(topics.values()));
    var answer = (DescribeProducersResponse) wire.ask(leader, new DescribeProducersRequest.Builder(data));
    for (var topic : answer.data().topics()) {
      for (var one : topic.partitions()) {
        TopicPartition partition = new TopicPartition(topic.name(), one.partitionIndex());
        Object start = starts.getOrDefault(partition, 0L);
        if (one.errorCode() != Errors.NONE.code()) {
          found.put(partition, Errors.forCode(one.errorCode()).name());
        } else if (start instanceof String) {
          found.put(partition, start);
        } else {
          List<Object> opened = new ArrayList<>();
          for (var producer : one.activeProducers()) {
            if (producer.currentTxnStartOffset() != NO_TRANSACTION) {
              opened.add(
                  List.of(producer.producerId(), producer.producerEpoch(), producer.currentTxnStartOffset()));
            }
          }
          found.put(partition, Map.of("opened", opened, "logStart", start));
        }
      }
    }
  }
}
