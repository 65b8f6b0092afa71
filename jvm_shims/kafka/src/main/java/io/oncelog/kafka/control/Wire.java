package io.oncelog.kafka.control;

import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.ApiVersions;
import org.apache.kafka.clients.ClientResponse;
import org.apache.kafka.clients.ClientUtils;
import org.apache.kafka.clients.Metadata;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.internals.ConsumerNetworkClient;
import org.apache.kafka.clients.consumer.internals.RequestFuture;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.errors.DisconnectException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.internals.ClusterResourceListeners;
import org.apache.kafka.common.message.FindCoordinatorRequestData;
import org.apache.kafka.common.message.FindCoordinatorResponseData.Coordinator;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.FindCoordinatorRequest;
import org.apache.kafka.common.requests.FindCoordinatorRequest.CoordinatorType;
import org.apache.kafka.common.requests.FindCoordinatorResponse;
import org.apache.kafka.common.requests.MetadataRequest;
import org.apache.kafka.common.requests.MetadataResponse;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Timer;
import org.apache.kafka.common.utils.internals.LogContext;

/**
 * Sends single requests to brokers and coordinators. Only this class uses the client's internals, because its public
 * API cannot end somebody else's transaction. For one thread at a time.
 */
final class Wire implements AutoCloseable {
  /** How many requests are sent before waiting for the first answer. */
  private static final int IN_FLIGHT = 64;

  private final Time time = Time.SYSTEM;
  private final Metrics metrics = new Metrics();
  private final int timeoutMs;
  private final ConsumerNetworkClient client;
  private final Map<Key, Node> coordinators = new HashMap<>();

  /** A request for the coordinator of an id or a group. */
  record Keyed(String key, AbstractRequest.Builder<?> request) {}

  /** A response, or the passing failure of a request. */
  record Reply(AbstractResponse response, Errors failure) {}

  private record Key(CoordinatorType type, String name) {}

  /** Connects to the first broker that answers. */
  Wire(Map<String, Object> settings, int connectTimeoutMs) {
    AdminClientConfig config = new AdminClientConfig(settings);
    LogContext log = new LogContext("[oncelog control] ");
    timeoutMs = config.getInt(AdminClientConfig.REQUEST_TIMEOUT_MS_CONFIG);
    long pauseMs = config.getLong(AdminClientConfig.RETRY_BACKOFF_MS_CONFIG);
    Metadata metadata = new BrokersOnly(config, pauseMs, log);
    List<String> servers = config.getList(AdminClientConfig.BOOTSTRAP_SERVERS_CONFIG);
    String lookup = config.getString(AdminClientConfig.CLIENT_DNS_LOOKUP_CONFIG);
    metadata.bootstrap(ClientUtils.parseAndValidateAddresses(servers, lookup));
    client =
        new ConsumerNetworkClient(
            log,
            ClientUtils.createNetworkClient(
                config, servers, metrics, "oncelog", log, new ApiVersions(), time, 2 * IN_FLIGHT, metadata, null, null),
            metadata,
            time,
            pauseMs,
            timeoutMs,
            Integer.MAX_VALUE);
    try {
      Timer timer = time.timer(connectTimeoutMs);
      // A client that reaches none of the addresses starts over with them, and counts that as an update.
      while (metadata.fetch().isBootstrapConfigured()) {
        if (!client.awaitMetadataUpdate(timer)) {
          throw new TimeoutException("no broker answered within " + connectTimeoutMs + " ms");
        }
      }
    } catch (RuntimeException problem) {
      close();
      throw problem;
    }
  }

  @Override
  public void close() {
    try {
      client.close();
    } catch (IOException problem) {
      throw new java.io.UncheckedIOException(problem);
    } finally {
      metrics.close();
    }
  }

  /** Sends each request to the coordinator of its key, in order. */
  List<Reply> askCoordinators(CoordinatorType type, List<Keyed> requests) {
    List<Reply> replies = new ArrayList<>();
    for (int start = 0; start < requests.size(); start += IN_FLIGHT) {
      replies.addAll(askSome(type, requests.subList(start, Math.min(start + IN_FLIGHT, requests.size()))));
    }
    return replies;
  }

  /** The next request for this key looks the coordinator up again. */
  void forget(CoordinatorType type, String key) {
    coordinators.remove(new Key(type, key));
  }

  /** Sends a request to a broker; null for any broker. */
  AbstractResponse ask(Node node, AbstractRequest.Builder<?> request) {
    Timer timer = time.timer(timeoutMs);
    return answer(client.send(node == null ? anyNode(timer) : node, request), timer);
  }

  String clusterId() {
    return ((MetadataResponse) ask(null, noTopics())).clusterId();
  }

  List<Node> brokers() {
    return new ArrayList<>(((MetadataResponse) ask(null, noTopics())).brokers());
  }

  private List<Reply> askSome(CoordinatorType type, List<Keyed> requests) {
    Timer timer = time.timer(timeoutMs);
    Map<String, Errors> absent = findCoordinators(type, requests, timer);
    List<RequestFuture<ClientResponse>> sent = new ArrayList<>();
    for (Keyed one : requests) {
      Node node = coordinators.get(new Key(type, one.key()));
      sent.add(absent.containsKey(one.key()) ? null : client.send(node, one.request()));
    }
    List<Reply> replies = new ArrayList<>();
    for (int at = 0; at < sent.size(); at++) {
      String key = requests.get(at).key();
      replies.add(sent.get(at) == null ? new Reply(null, absent.get(key)) : reply(type, key, sent.get(at), timer));
    }
    return replies;
  }

  private Reply reply(
      CoordinatorType type, String key, RequestFuture<ClientResponse> sent, Timer timer) {
    try {
      return new Reply(answer(sent, timer), null);
    } catch (RetriableException problem) {
      forget(type, key);
      return new Reply(null, Errors.NETWORK_EXCEPTION);
    }
  }

  /** Looks up the coordinators that are not known yet. Returns the errors of those that were not found. */
  private Map<String, Errors> findCoordinators(CoordinatorType type, List<Keyed> requests, Timer timer) {
    Set<String> wanted = new LinkedHashSet<>();
    for (Keyed one : requests) {
      if (!coordinators.containsKey(new Key(type, one.key()))) {
        wanted.add(one.key());
      }
    }
    Map<String, Errors> absent = new HashMap<>();
    if (wanted.isEmpty()) {
      return absent;
    }
    FindCoordinatorRequestData data =
        new FindCoordinatorRequestData().setKeyType(type.id()).setCoordinatorKeys(List.copyOf(wanted));
    wanted.forEach(key -> absent.put(key, Errors.NETWORK_EXCEPTION));
    try {
      RequestFuture<ClientResponse> sent =
          client.send(anyNode(timer), new FindCoordinatorRequest.Builder(data));
      for (Coordinator found : ((FindCoordinatorResponse) answer(sent, timer)).coordinators()) {
        keep(type, found, absent);
      }
    } catch (RetriableException problem) {
      return absent; // none was found
    }
    return absent;
  }

  private void keep(CoordinatorType type, Coordinator found, Map<String, Errors> absent) {
    Errors error = Errors.forCode(found.errorCode());
    if (error == Errors.NONE) {
      coordinators.put(new Key(type, found.key()), new Node(found.nodeId(), found.host(), found.port()));
      absent.remove(found.key());
    } else if (error.exception() instanceof RetriableException) {
      absent.put(found.key(), error);
    } else {
      throw error.exception();
    }
  }

  private AbstractResponse answer(RequestFuture<ClientResponse> sent, Timer timer) {
    if (!client.poll(sent, timer)) {
      throw new DisconnectException("no answer within " + timeoutMs + " ms");
    }
    if (sent.failed()) {
      throw sent.exception();
    }
    return sent.value().responseBody();
  }

  private Node anyNode(Timer timer) {
    Node found = client.leastLoadedNode();
    while (found == null && timer.notExpired()) {
      client.poll(time.timer(Math.min(100, timer.remainingMs())));
      timer.update();
      found = client.leastLoadedNode();
    }
    if (found == null) {
      throw new DisconnectException("no broker can be reached");
    }
    return found;
  }

  private static MetadataRequest.Builder noTopics() {
    return new MetadataRequest.Builder(List.of(), false);
  }

  /** Metadata of the cluster's brokers, without topics. */
  private static final class BrokersOnly extends Metadata {
    BrokersOnly(AdminClientConfig config, long pauseMs, LogContext log) {
      super(
          pauseMs,
          config.getLong(AdminClientConfig.RETRY_BACKOFF_MAX_MS_CONFIG),
          config.getLong(AdminClientConfig.METADATA_MAX_AGE_CONFIG),
          log,
          new ClusterResourceListeners());
    }

    @Override
    protected MetadataRequest.Builder newMetadataRequestBuilder() {
      return noTopics();
    }
  }
}
