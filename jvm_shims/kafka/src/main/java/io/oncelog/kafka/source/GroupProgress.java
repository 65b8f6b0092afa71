package io.oncelog.kafka.source;

import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Commits the query's progress to a consumer group, for lag tools only: the query itself uses its checkpoint. A failed
 * commit is left to the next batch.
 *
 * <p>A partition is left alone if somebody else committed its offset with their own metadata, such as an exactly-once
 * sink that commits offsets in its transactions: a late plain commit would move it back. So is a partition whose offset
 * depends on an undecided transaction.
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
