package io.oncelog.kafka.source;

import java.util.List;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.SparkEnv;
import org.apache.spark.storage.BlockManager;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The executors, and which of them should read which partition: always the same one, because it has the consumer that
 * is at the next record ({@link ConsumerCache}).
 */
final class Executors {
  private final List<String> locations; // in the form that Spark's scheduler uses

  private Executors(List<String> locations) {
    this.locations = locations;
  }

  static Executors now() {
    BlockManager blocks = SparkEnv.get().blockManager();
    return new Executors(
        CollectionConverters.asJava(blocks.master().getPeers(blocks.blockManagerId())).stream()
            .map(peer -> "executor_" + peer.host() + "_" + peer.executorId())
            .sorted()
            .toList());
  }

  /** The location of a partition's executor; null if the driver runs the tasks itself. */
  String locationOf(TopicPartition partition) {
    if (locations.isEmpty()) {
      return null;
    }
    return locations.get(Math.floorMod(partition.topic().hashCode() + partition.partition(), locations.size()));
  }
}
