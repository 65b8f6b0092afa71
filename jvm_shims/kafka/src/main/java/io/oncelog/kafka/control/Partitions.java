package io.oncelog.kafka.control;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.LeaderNotAvailableException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.message.CreateTopicsRequestData;
import org.apache.kafka.common.message.CreateTopicsRequestData.CreatableTopic;
import org.apache.kafka.common.message.CreateTopicsRequestData.CreatableTopicConfig;
import org.apache.kafka.common.message.DeleteRecordsRequestData;
import org.apache.kafka.common.message.DeleteRecordsRequestData.DeleteRecordsPartition;
import org.apache.kafka.common.message.DeleteRecordsRequestData.DeleteRecordsTopic;
import org.apache.kafka.common.message.DescribeConfigsRequestData;
import org.apache.kafka.common.message.DescribeConfigsRequestData.DescribeConfigsResource;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.message.ListOffsetsRequestData.ListOffsetsPartition;
import org.apache.kafka.common.message.ListOffsetsRequestData.ListOffsetsTopic;
import org.apache.kafka.common.message.MetadataRequestData;
import org.apache.kafka.common.message.MetadataRequestData.MetadataRequestTopic;
import org.apache.kafka.common.message.MetadataResponseData.MetadataResponsePartition;
import org.apache.kafka.common.message.ProduceRequestData;
import org.apache.kafka.common.message.ProduceRequestData.PartitionProduceData;
import org.apache.kafka.common.message.ProduceRequestData.TopicProduceData;
import org.apache.kafka.common.message.ProduceRequestData.TopicProduceDataCollection;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.CreateTopicsRequest;
import org.apache.kafka.common.requests.CreateTopicsResponse;
import org.apache.kafka.common.requests.DeleteRecordsRequest;
import org.apache.kafka.common.requests.DeleteRecordsResponse;
import org.apache.kafka.common.requests.DescribeConfigsRequest;
import org.apache.kafka.common.requests.DescribeConfigsResponse;
import org.apache.kafka.common.requests.FetchRequest;
import org.apache.kafka.common.requests.FetchResponse;
import org.apache.kafka.common.requests.ListOffsetsRequest;
import org.apache.kafka.common.requests.ListOffsetsResponse;
import org.apache.kafka.common.requests.MetadataRequest;
import org.apache.kafka.common.requests.MetadataResponse;
import org.apache.kafka.common.requests.ProduceRequest;
import org.apache.kafka.common.requests.ProduceResponse;
import org.apache.kafka.common.utils.Utils;

/** Requests about topics of a single partition, which keep command logs. */
final class Partitions {
  private static final int PARTITION = 0;
  private static final int TIMEOUT_MS = 10_000;
  private static final short ALL_IN_SYNC = -1;

  private final Wire wire;
  private final Map<String, Leader> leaders = new HashMap<>();

  private record Leader(Node node, int epoch, Uuid topicId) {}

  Partitions(Wire wire) {
    this.wire = wire;
  }

  /** Answers one request. Only control/partitions.py sends them. */
  Object answer(String what, JsonNode request) {
    if (what.equals("brokers")) {
      return wire.brokers().size();
    }
    String topic = request.get("topic").asText();
    return switch (what) {
      case "topic" -> topic(topic);
      case "topicSettings" -> settings(topic);
      case "createTopic" -> create(topic, (short) request.get("replicas").asInt(), request.get("settings"));
      case "fetch" -> fetch(topic, request.get("offset").asLong(), request.get("maxBytes").asInt());
      case "produce" -> produce(topic, Uuid.fromString(request.get("topicId").asText()), body(request));
      case "forgetLeader" -> leaders.remove(topic) != null;
      case "earliest" -> earliest(topic);
      case "deleteBefore" -> deleteBefore(topic, request.get("offset").asLong());
      default -> throw new IllegalArgumentException("unknown request: " + what);
    };
  }

  private Map<String, Object> topic(String topic) {
    var found = metadata(topic).data().topics().find(topic);
    int leader = MetadataResponse.NO_LEADER_ID;
    int leaderEpoch = RecordBatch.NO_PARTITION_LEADER_EPOCH;
    for (MetadataResponsePartition one : found.partitions()) {
      if (one.partitionIndex() == PARTITION) {
        leader = one.leaderId();
        leaderEpoch = one.leaderEpoch();
      }
    }
    List<String> operations = new ArrayList<>();
    if (found.topicAuthorizedOperations() != MetadataResponse.AUTHORIZED_OPERATIONS_OMITTED) {
      for (byte code : Utils.from32BitField(found.topicAuthorizedOperations())) {
        operations.add(AclOperation.fromCode(code).name());
      }
    }
    return Map.of(
        "answer", Errors.forCode(found.errorCode()).name(),
        "topicId", found.topicId().toString(),
        "leader", leader,
        "leaderEpoch", leaderEpoch,
        "partitions", found.partitions().size(),
        "operations", operations);
  }

  private Map<String, String> settings(String topic) {
    var wanted =
        new DescribeConfigsResource()
            .setResourceType(ConfigResource.Type.TOPIC.id())
            .setResourceName(topic)
            .setConfigurationKeys(null);
    var data = new DescribeConfigsRequestData().setResources(List.of(wanted));
    var answer = (DescribeConfigsResponse) wire.ask(null, new DescribeConfigsRequest.Builder(data));
    Map<String, String> found = new TreeMap<>();
    for (var result : answer.data().results()) {
      refuse(result.errorCode(), result.errorMessage());
      result.configs().forEach(one -> found.put(one.name(), one.value()));
    }
    return found;
  }

  private boolean create(String topic, short replicas, JsonNode settings) {
    var wanted = new CreatableTopic().setName(topic).setNumPartitions(1).setReplicationFactor(replicas);
    settings
        .fields()
        .forEachRemaining(
            one ->
                wanted
                    .configs()
                    .add(new CreatableTopicConfig().setName(one.getKey()).setValue(one.getValue().asText())));
    var data = new CreateTopicsRequestData().setTimeoutMs(TIMEOUT_MS);
    data.topics().add(wanted);
    Node controller = metadata(topic).controller();
    var answer = (CreateTopicsResponse) wire.ask(controller, new CreateTopicsRequest.Builder(data));
    for (var result : answer.data().topics()) {
      if (result.errorCode() != Errors.TOPIC_ALREADY_EXISTS.code()) {
        refuse(result.errorCode(), result.errorMessage());
      }
    }
    return true;
  }

  /** The batches from the one with an offset on, or the name of an error. */
  private Object fetch(String topic, long offset, int maxBytes) {
    Leader leader = leader(topic);
    var wanted =
        new FetchRequest.PartitionData(
            leader.topicId(), offset, FetchRequest.INVALID_LOG_START_OFFSET, maxBytes, epoch(leader));
    var request =
        FetchRequest.Builder.forConsumer(
                ApiKeys.FETCH.latestVersion(), 0, 0, Map.of(new TopicPartition(topic, PARTITION), wanted))
            .setMaxBytes(maxBytes);
    var answer = ((FetchResponse) askLeader(topic, request)).data();
    if (answer.errorCode() != Errors.NONE.code()) {
      return failed(topic, answer.errorCode());
    }
    FetchResponseData.PartitionData found = answer.responses().get(0).partitions().get(0);
    if (found.errorCode() != Errors.NONE.code()) {
      return failed(topic, found.errorCode());
    }
    List<Object> batches = new ArrayList<>();
    for (RecordBatch batch : FetchResponse.recordsOrFail(found).batches()) {
      if (batch.lastOffset() >= offset) {
        batches.add(batch(batch, offset));
      }
    }
    return Map.of("topicId", leader.topicId().toString(), "batches", batches, "highWatermark", found.highWatermark());
  }

  /** The fields of RecordBatch in ports.py. */
  private static Map<String, Object> batch(RecordBatch batch, long offset) {
    List<Object> records = new ArrayList<>();
    long count = batch.lastOffset() + 1 - Math.max(batch.baseOffset(), offset);
    if (!batch.hasProducerId()) {
      for (Record record : batch) {
        if (record.offset() >= offset) { // a batch is fetched whole
          String value = record.hasValue() ? Base64.getEncoder().encodeToString(Utils.toArray(record.value())) : null;
          records.add(Arrays.asList(record.offset(), record.timestamp(), value));
        }
      }
      count = records.size();
    }
    return Map.of("count", count, "end", batch.nextOffset(), "records", records, "isIntact", batch.isValid());
  }

  private static Optional<Integer> epoch(Leader leader) {
    return leader.epoch() == RecordBatch.NO_PARTITION_LEADER_EPOCH ? Optional.empty() : Optional.of(leader.epoch());
  }

  private static byte[] body(JsonNode request) {
    return Base64.getDecoder().decode(request.get("body").asText());
  }

  private Object produce(String topic, Uuid topicId, byte[] body) {
    if (!leader(topic).topicId().equals(topicId)) {
      return Errors.INCONSISTENT_TOPIC_ID.name();
    }
    var record = new SimpleRecord(System.currentTimeMillis(), null, ByteBuffer.wrap(body));
    var partition =
        new PartitionProduceData()
            .setIndex(PARTITION)
            .setRecords(MemoryRecords.withRecords(Compression.NONE, record));
    var data =
        new ProduceRequestData()
            .setAcks(ALL_IN_SYNC)
            .setTimeoutMs(TIMEOUT_MS)
            .setTopicData(
                new TopicProduceDataCollection(
                    List.of(
                            new TopicProduceData()
                                .setName(topic)
                                .setTopicId(topicId)
                                .setPartitionData(List.of(partition)))
                        .iterator()));
    var answer = ((ProduceResponse) askLeader(topic, ProduceRequest.builder(data))).data();
    var found = answer.responses().iterator().next();
    var appended = found.partitionResponses().get(0);
    if (appended.errorCode() != Errors.NONE.code()) {
      return failed(topic, appended.errorCode());
    }
    return Map.of(
        "isById", found.topicId().equals(topicId),
        "offset", appended.baseOffset(),
        "timeMs", appended.logAppendTimeMs());
  }

  private long earliest(String topic) {
    var wanted =
        new ListOffsetsPartition()
            .setPartitionIndex(PARTITION)
            .setTimestamp(ListOffsetsRequest.EARLIEST_TIMESTAMP);
    var request =
        ListOffsetsRequest.Builder.forConsumer(false, IsolationLevel.READ_UNCOMMITTED)
            .setTargetTimes(List.of(new ListOffsetsTopic().setName(topic).setPartitions(List.of(wanted))));
    var answer = ((ListOffsetsResponse) askLeader(topic, request)).topics().get(0).partitions().get(0);
    refuseLeader(topic, answer.errorCode());
    return answer.offset();
  }

  private boolean deleteBefore(String topic, long offset) {
    var partition = new DeleteRecordsPartition().setPartitionIndex(PARTITION).setOffset(offset);
    var data =
        new DeleteRecordsRequestData()
            .setTimeoutMs(TIMEOUT_MS)
            .setTopics(List.of(new DeleteRecordsTopic().setName(topic).setPartitions(List.of(partition))));
    var answer = ((DeleteRecordsResponse) askLeader(topic, new DeleteRecordsRequest.Builder(data))).data();
    refuseLeader(topic, answer.topics().find(topic).partitions().find(PARTITION).errorCode());
    return true;
  }

  // Leaders -----------------------------------------------------------------------------------------------------------

  private AbstractResponse askLeader(String topic, AbstractRequest.Builder<?> request) {
    try {
      return wire.ask(leader(topic).node(), request);
    } catch (RetriableException problem) {
      leaders.remove(topic);
      throw problem;
    }
  }

  private Leader leader(String topic) {
    Leader known = leaders.get(topic);
    if (known != null) {
      return known;
    }
    MetadataResponse answer = metadata(topic);
    var found = answer.data().topics().find(topic);
    refuse(found.errorCode(), null);
    for (MetadataResponsePartition one : found.partitions()) {
      Node node = answer.brokersById().get(one.leaderId());
      if (one.partitionIndex() == PARTITION && node != null) {
        leaders.put(topic, new Leader(node, one.leaderEpoch(), found.topicId()));
      }
    }
    if (!leaders.containsKey(topic)) {
      throw new LeaderNotAvailableException("the partition has no leader now");
    }
    return leaders.get(topic);
  }

  private MetadataResponse metadata(String topic) {
    var data =
        new MetadataRequestData()
            .setTopics(List.of(new MetadataRequestTopic().setName(topic)))
            .setAllowAutoTopicCreation(false)
            .setIncludeTopicAuthorizedOperations(true);
    return (MetadataResponse) wire.ask(null, new MetadataRequest.Builder(data));
  }

  /** The name of an error, after which the leader is looked up again. */
  private String failed(String topic, short errorCode) {
    leaders.remove(topic);
    return Errors.forCode(errorCode).name();
  }

  private void refuseLeader(String topic, short errorCode) {
    if (errorCode != Errors.NONE.code()) {
      leaders.remove(topic);
      refuse(errorCode, null);
    }
  }

  private static void refuse(short errorCode, String message) {
    if (errorCode != Errors.NONE.code()) {
      throw Errors.forCode(errorCode).exception(message);
    }
  }
}
