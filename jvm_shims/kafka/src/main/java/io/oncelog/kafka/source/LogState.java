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
 * The state of a partition's log, which a task looks up when the broker returns no records. A fetch at the end of a log
 * returns nothing either, whatever was planned. Hence only this tells whether the range may still come or is lost.
 *
 * @param topicId of the topic that has this name now
 * @param end where the log ends, including open transactions
 */
record LogState(String topicId, long end) {
  private static final int TIMEOUT_MS = 5_000;

  /** Asks the brokers. This is rare, so no client is kept for it. */
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
   * Why the range from {@code position} on is lost; empty while it may still come.
   *
   * <p>Records in the log may still come: its leader may be unreachable, or their transaction open. Records beyond the
   * log's end may still come too, because a new leader may need a moment to know the end, but not if the topic was
   * created again.
   *
   * @param isLast whether the reader stops waiting
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
