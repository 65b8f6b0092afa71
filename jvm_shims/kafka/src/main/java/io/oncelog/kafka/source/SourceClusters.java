package io.oncelog.kafka.source;

import io.oncelog.kafka.ClientSettings;
import java.lang.reflect.Field;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.admin.Admin;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Which clusters the sources of a query read. A source's offsets name topics and partitions only, so they mean nothing
 * in another cluster.
 */
public final class SourceClusters {
  private static final Logger LOG = LoggerFactory.getLogger(SourceClusters.class);

  /** The ids by the addresses that a source of Spark's connector has. A query asks in each batch. */
  private static final Map<String, String> KNOWN = new ConcurrentHashMap<>();

  private SourceClusters() {}

  /**
   * The id of the cluster that a stream reads; null if it is no Kafka stream, or does not say which cluster it reads.
   *
   * @param stream of a running query
   */
  public static String idOf(Object stream) {
    if (stream instanceof KafkaMicroBatchStream ours) {
      return ours.clusterId();
    }
    if (!stream.getClass().getName().endsWith(".sql.kafka010.KafkaMicroBatchStream")) {
      return null;
    }
    try {
      Field field = stream.getClass().getDeclaredField("executorKafkaParams");
      field.setAccessible(true);
      Map<String, String> settings = new HashMap<>();
      ((Map<?, ?>) field.get(stream))
          .forEach((name, value) -> settings.put(name.toString(), ClientSettings.relocated(value.toString())));
      return KNOWN.computeIfAbsent(String.valueOf(settings.get("bootstrap.servers")), addresses -> idOf(settings));
    } catch (ReflectiveOperationException | RuntimeException problem) {
      LOG.warn("the cluster of a source cannot be compared with that of the sink's group", problem);
      return null;
    }
  }

  private static String idOf(Map<String, String> settings) {
    try (Admin admin = Cluster.connect(settings)) {
      return admin.describeCluster().clusterId().get();
    } catch (Exception problem) {
      throw new IllegalStateException("the cluster of a source does not answer", problem);
    }
  }
}
