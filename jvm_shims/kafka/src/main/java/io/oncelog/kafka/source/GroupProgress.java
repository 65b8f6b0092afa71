package io.oncelog.kafka.source;

import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Tells a consumer group how far the query is, for the eyes of lag tools: the query itself goes by its checkpoint. What
 * fails is left to the next batch.
 *
 * <p>A partition whose offset somebody else committed with metadata of their own, such as an exactly-once sink that
 * commits the offsets in its transactions, is theirs: a late plain commit would move it back. So is one whose offset
 * hangs on an undecided transaction.
 */
final class GroupProgress {
  private static final Logger LOG = LoggerFactory.getLogger(GroupProgress.class);
  private static final String METADATA = "oncelog-kafka source";

  private final Cluster cluster;
  private final String groupId;

  GroupProgress(Cluster cluster, String groupId) {
    this.cluster = cluster;
    this.groupId = groupId;
  }

  void commit(Map<TopicPartition, Long> offsets) {
    try {
      Map<TopicPartition, OffsetAndMetadata> known = cluster.committed(groupId, offsets.keySet());
      Map<TopicPartition, OffsetAndMetadata> fresh = new HashMap<>();
      offsets.forEach(
          (partition, offset) -> {
            if (known.containsKey(partition) && isOurs(known.get(partition))) {
              fresh.put(partition, new OffsetAndMetadata(offset, METADATA));
            }
          });
      if (!fresh.isEmpty()) {
        cluster.commit(groupId, fresh);
      }
    } catch (RuntimeException problem) {
      LOG.warn("the group's progress is not updated; group={}, cause={}", groupId, problem.toString());
    }
  }

  private static boolean isOurs(OffsetAndMetadata known) {
    return known == null || known.metadata().isEmpty() || known.metadata().equals(METADATA);
  }
}
