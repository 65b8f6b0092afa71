package io.oncelog.kafka.source;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.function.BiPredicate;
import java.util.stream.Collectors;
import org.apache.kafka.common.TopicPartition;

/**
 * Where logs end for a reader, and where they really end. The two differ while a transaction is open. An offset between
 * them is not lost: it can be read as soon as the transaction ends. Only an offset beyond the log's end is lost. Pure.
 *
 * @param readable the last stable offsets; under read_uncommitted the logs' ends
 * @param ends the logs' ends, open transactions included
 */
record LogEnds(Map<TopicPartition, Long> readable, Map<TopicPartition, Long> ends) {

  /** The partitions whose log ends before the {@code known} offset. */
  Set<TopicPartition> lost(Map<TopicPartition, Long> known) {
    return with(known, (partition, offset) -> ends.get(partition) < offset);
  }

  /** The partitions whose log contains what is before the {@code known} offset, but not all of it can be read yet. */
  Set<TopicPartition> held(Map<TopicPartition, Long> known) {
    return with(known, (partition, offset) -> readable.get(partition) < offset && offset <= ends.get(partition));
  }

  /** How far each log can be read by a reader that is at {@code known}, and never goes back. */
  Map<TopicPartition, Long> readableFrom(Map<TopicPartition, Long> known) {
    Map<TopicPartition, Long> found = new HashMap<>(readable);
    found.replaceAll((partition, end) -> Math.max(end, known.getOrDefault(partition, 0L)));
    return found;
  }

  private Set<TopicPartition> with(Map<TopicPartition, Long> known, BiPredicate<TopicPartition, Long> rule) {
    return readable.keySet().stream()
        .filter(partition -> rule.test(partition, known.getOrDefault(partition, 0L)))
        .collect(Collectors.toSet());
  }
}
