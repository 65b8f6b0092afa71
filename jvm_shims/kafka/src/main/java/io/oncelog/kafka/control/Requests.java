package io.oncelog.kafka.control;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.message.DescribeConfigsRequestData;
import org.apache.kafka.common.message.DescribeTransactionsRequestData;
import org.apache.kafka.common.message.EndTxnRequestData;
import org.apache.kafka.common.message.InitProducerIdRequestData;
import org.apache.kafka.common.message.ListTransactionsRequestData;
import org.apache.kafka.common.message.OffsetFetchRequestData;
import org.apache.kafka.common.message.OffsetFetchRequestData.OffsetFetchRequestGroup;
import org.apache.kafka.common.message.OffsetFetchRequestData.OffsetFetchRequestTopics;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.DescribeConfigsRequest;
import org.apache.kafka.common.requests.DescribeConfigsResponse;
import org.apache.kafka.common.requests.DescribeTransactionsRequest;
import org.apache.kafka.common.requests.DescribeTransactionsResponse;
import org.apache.kafka.common.requests.EndTxnRequest;
import org.apache.kafka.common.requests.EndTxnResponse;
import org.apache.kafka.common.requests.FindCoordinatorRequest.CoordinatorType;
import org.apache.kafka.common.requests.InitProducerIdRequest;
import org.apache.kafka.common.requests.InitProducerIdResponse;
import org.apache.kafka.common.requests.ListTransactionsRequest;
import org.apache.kafka.common.requests.ListTransactionsResponse;
import org.apache.kafka.common.requests.MetadataRequest;
import org.apache.kafka.common.requests.MetadataResponse;
import org.apache.kafka.common.requests.OffsetFetchRequest;
import org.apache.kafka.common.requests.OffsetFetchResponse;

/** Turns Python's requests into Kafka's, and returns the answers as they come, with errors by Kafka's names. */
final class Requests {
  private static final CoordinatorType TRANSACTION = CoordinatorType.TRANSACTION;
  private static final CoordinatorType GROUP = CoordinatorType.GROUP;
  private static final String NONE = Errors.NONE.name();
  private static final long NO_PRODUCER = -1;

  private final Wire wire;
  private final Partitions partitions;
  private final Leaders leaders;

  Requests(Wire wire) {
    this.wire = wire;
    partitions = new Partitions(wire);
    leaders = new Leaders(wire);
  }

  /** Answers one request. Only control/ sends them. */
  Object answer(JsonNode request) {
    String what = request.get("ask").asText();
    return switch (what) {
      case "end" -> end(request.get("participants"));
      case "init" -> init(texts(request.get("ids")), request.get("timeoutMs").asInt());
      case "describe" -> describe(texts(request.get("ids")));
      case "states" -> leaders.states(request.get("partitions"));
      case "list" -> list(texts(request.get("states")));
      case "offsets" -> offsets(request.get("groups"));
      case "partitions" -> partitions(request.get("topic").asText());
      case "clusterId" -> wire.clusterId();
      case "setting" -> setting(request.get("name").asText());
      default -> partitions.answer(what, request);
    };
  }

  private List<Object> end(JsonNode participants) {
    List<Wire.Keyed> requests = new ArrayList<>();
    for (JsonNode one : participants) {
      EndTxnRequestData data =
          new EndTxnRequestData()
              .setTransactionalId(one.get("id").asText())
              .setProducerId(one.get("producerId").asLong())
              .setProducerEpoch((short) one.get("epoch").asInt())
              .setCommitted(true);
      int greatest = one.get("greatest").asInt();
      EndTxnRequest.Builder builder = new EndTxnRequest.Builder(data, greatest > 4);
      requests.add(new Wire.Keyed(data.transactionalId(), bounded(builder, one.get("least").asInt(), greatest)));
    }
    return answers(requests, response -> ((EndTxnResponse) response).error(), Requests::following);
  }

  /** The producer of the next transaction, which answers name from version 5 on. */
  private static Object following(AbstractResponse response) {
    var data = ((EndTxnResponse) response).data();
    return data.producerId() == NO_PRODUCER ? NONE : List.of(data.producerId(), data.producerEpoch());
  }

  private List<Object> init(List<String> ids, int timeoutMs) {
    List<Wire.Keyed> requests = new ArrayList<>();
    for (String id : ids) {
      InitProducerIdRequestData data =
          new InitProducerIdRequestData()
              .setTransactionalId(id)
              .setTransactionTimeoutMs(timeoutMs)
              .setProducerId(-1)
              .setProducerEpoch((short) -1);
      requests.add(new Wire.Keyed(id, bounded(new InitProducerIdRequest.Builder(data), 0, 5))); // 6: KIP-939
    }
    return answers(requests, response -> ((InitProducerIdResponse) response).error(), response -> NONE);
  }

  private List<Object> describe(List<String> ids) {
    List<Wire.Keyed> requests = new ArrayList<>();
    for (String id : ids) {
      DescribeTransactionsRequestData data =
          new DescribeTransactionsRequestData().setTransactionalIds(List.of(id));
      requests.add(new Wire.Keyed(id, new DescribeTransactionsRequest.Builder(data)));
    }
    List<Object> found = new ArrayList<>();
    List<Wire.Reply> replies = wire.askCoordinators(TRANSACTION, requests);
    for (int at = 0; at < replies.size(); at++) {
      Wire.Reply reply = replies.get(at);
      found.add(reply.failure() != null ? reply.failure().name() : described(ids.get(at), reply.response()));
    }
    return found;
  }

  private Object described(String id, AbstractResponse response) {
    var state = ((DescribeTransactionsResponse) response).data().transactionStates().get(0);
    Errors error = Errors.forCode(state.errorCode());
    if (error != Errors.NONE) {
      return moved(TRANSACTION, id, error).name();
    }
    List<String> partitions = new ArrayList<>();
    state.topics().forEach(topic -> topic.partitions().forEach(at -> partitions.add(topic.topic() + "-" + at)));
    Map<String, Object> found = new LinkedHashMap<>();
    found.put("state", state.transactionState());
    found.put("producerId", state.producerId());
    found.put("epoch", state.producerEpoch());
    found.put("timeoutMs", state.transactionTimeoutMs());
    found.put("startedMs", state.transactionStartTimeMs());
    found.put("partitions", partitions);
    return found;
  }

  private List<Object> list(List<String> states) {
    List<Object> found = new ArrayList<>();
    for (Node broker : wire.brokers()) {
      ListTransactionsRequestData data = new ListTransactionsRequestData().setStateFilters(states);
      var answer = ((ListTransactionsResponse) wire.ask(broker, new ListTransactionsRequest.Builder(data))).data();
      refuse(answer.errorCode());
      answer.transactionStates().forEach(one -> found.add(List.of(one.transactionalId(), one.transactionState())));
    }
    return found;
  }

  private Map<String, Object> offsets(JsonNode groups) {
    List<Wire.Keyed> requests = new ArrayList<>();
    groups
        .fields()
        .forEachRemaining(one -> requests.add(new Wire.Keyed(one.getKey(), fetch(one.getKey(), one.getValue()))));
    List<Wire.Reply> replies = wire.askCoordinators(GROUP, requests);
    Map<String, Object> found = new LinkedHashMap<>();
    for (int at = 0; at < replies.size(); at++) {
      String group = requests.get(at).key();
      Wire.Reply reply = replies.get(at);
      found.put(group, reply.failure() != null ? reply.failure().name() : fetched(group, reply.response()));
    }
    return found;
  }

  /** Asks for the offsets in these topics; null for all that the group has. */
  private static AbstractRequest.Builder<?> fetch(String group, JsonNode topics) {
    List<OffsetFetchRequestTopics> wanted = topics.isNull() ? null : new ArrayList<>();
    topics
        .fields()
        .forEachRemaining(
            one -> {
              List<Integer> numbers = new ArrayList<>();
              one.getValue().forEach(number -> numbers.add(number.asInt()));
              wanted.add(new OffsetFetchRequestTopics().setName(one.getKey()).setPartitionIndexes(numbers));
            });
    OffsetFetchRequestData data =
        new OffsetFetchRequestData()
            .setRequireStable(true)
            .setGroups(List.of(new OffsetFetchRequestGroup().setGroupId(group).setTopics(wanted)));
    return bounded(OffsetFetchRequest.Builder.forTopicNames(data, true), 8, 9);
  }

  private Object fetched(String group, AbstractResponse response) {
    var answer = ((OffsetFetchResponse) response).data().groups().get(0);
    Errors error = Errors.forCode(answer.errorCode());
    if (error != Errors.NONE && error != Errors.GROUP_ID_NOT_FOUND) {
      return moved(GROUP, group, error).name();
    }
    List<Object> found = new ArrayList<>();
    for (var topic : answer.topics()) {
      for (var one : topic.partitions()) {
        String problem = Errors.forCode(one.errorCode()).name();
        String metadata = one.metadata() == null ? "" : one.metadata();
        found.add(List.of(topic.name(), one.partitionIndex(), problem, one.committedOffset(), metadata));
      }
    }
    return found;
  }

  private List<Object> partitions(String topic) {
    var request = new MetadataRequest.Builder(List.of(topic), false);
    var found = ((MetadataResponse) wire.ask(null, request)).data().topics().find(topic);
    return List.of(Errors.forCode(found.errorCode()).name(), found.partitions().size());
  }

  private List<Long> setting(String name) {
    List<Long> found = new ArrayList<>();
    for (Node broker : wire.brokers()) {
      var wanted =
          new DescribeConfigsRequestData.DescribeConfigsResource()
              .setResourceType(ConfigResource.Type.BROKER.id())
              .setResourceName(broker.idString())
              .setConfigurationKeys(List.of(name));
      var data = new DescribeConfigsRequestData().setResources(List.of(wanted));
      var answer = (DescribeConfigsResponse) wire.ask(broker, new DescribeConfigsRequest.Builder(data));
      for (var result : answer.data().results()) {
        refuse(result.errorCode());
        for (var one : result.configs()) {
          if (one.name().equals(name)) {
            found.add(Long.valueOf(one.value()));
          }
        }
      }
    }
    return found;
  }

  /** The name of each error, or what {@code success} makes of the response. */
  private List<Object> answers(
      List<Wire.Keyed> requests,
      Function<AbstractResponse, Errors> error,
      Function<AbstractResponse, Object> success) {
    List<Object> found = new ArrayList<>();
    List<Wire.Reply> replies = wire.askCoordinators(TRANSACTION, requests);
    for (int at = 0; at < replies.size(); at++) {
      Wire.Reply reply = replies.get(at);
      String key = requests.get(at).key();
      boolean isAnswered = reply.failure() == null;
      Errors said = isAnswered ? moved(TRANSACTION, key, error.apply(reply.response())) : reply.failure();
      found.add(said == Errors.NONE ? success.apply(reply.response()) : said.name());
    }
    return found;
  }

  /** Returns the error. If it says that the coordinator moved, the next request looks the coordinator up again. */
  private Errors moved(CoordinatorType type, String key, Errors error) {
    if (error == Errors.NOT_COORDINATOR || error == Errors.COORDINATOR_NOT_AVAILABLE) {
      wire.forget(type, key);
    }
    return error;
  }

  private static void refuse(short errorCode) {
    if (errorCode != Errors.NONE.code()) {
      throw Errors.forCode(errorCode).exception();
    }
  }

  private static List<String> texts(JsonNode array) {
    List<String> found = new ArrayList<>();
    array.forEach(one -> found.add(one.asText()));
    return found;
  }

  /** The same request, limited to these versions. */
  static <T extends AbstractRequest> AbstractRequest.Builder<T> bounded(
      AbstractRequest.Builder<T> builder, int least, int greatest) {
    ApiKeys key = builder.apiKey();
    return new AbstractRequest.Builder<>(key, (short) least, (short) greatest) {
      @Override
      public T build(short version) {
        return builder.build(version);
      }
    };
  }
}
