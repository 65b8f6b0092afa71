package io.oncelog.kafka.source;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.SortedMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;

/**
 * A partition's log, as a task looks at it when the broker gives nothing. A fetch at the end of a log is answered with
 * nothing too, whatever was planned: hence only this tells a log to wait for from one that will never have the range.
 *
 * @param topicId of the topic that has the partition's name now
 * @param end where the log ends, open transactions included
 */
record LogState(String topicId, long end) {
  private static final int TIMEOUT_MS = 5_000;

  /** Asks the brokers. Comes so seldom that it is not worth a client that stays. */
  static LogState ask(SortedMap<String, String> clientSettings, TopicPartition partition) throws Exception {
    Admin admin = Cluster.connect(clientSettings);
    try {
      TopicDescription topic =
          admin
              .describeTopics(List.of(partition.topic()), new DescribeTopicsOptions().timeoutMs(TIMEOUT_MS))
              .topicNameValues()
              .get(partition.topic())
              .get();
      ListOffsetsResultInfo end =
          admin
              .listOffsets(
                  Map.of(partition, OffsetSpec.latest()),
                  new ListOffsetsOptions(IsolationLevel.READ_UNCOMMITTED).timeoutMs(TIMEOUT_MS))
              .partitionResult(partition)
              .get();
      return new LogState(topic.topicId().toString(), end.offset());
    } finally {
      admin.close(Duration.ZERO);
    }
  }

  /**
   * Why the range from {@code position} on is lost; nothing while it may still come.
   *
   * <p>Records that are in the log may still come: its leader may be out of reach, or their transaction open. Those
   * that a log is too short for may come too, since a new leader can take a moment to know how long it is; but not in a
   * topic that was created again.
   *
   * @param isLast whether the reader waits no longer
   */
  Optional<String> loss(OffsetRange range, long position, boolean isLast) {
    if (end > position) {
      return Optional.empty();
    } else if (!topicId.equals(range.topicId())) {
      return Optional.of("the topic was deleted and created again while the batch was read");
    }
    return isLast ? Optional.of("the log ends before the planned range") : Optional.empty();
  }
}
