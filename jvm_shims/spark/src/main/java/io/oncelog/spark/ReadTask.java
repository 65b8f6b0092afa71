package io.oncelog.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.oncelog.spark.blocks.Block;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.connector.read.InputPartition;

/**
 * What one task reads, as Python planned it: rows of one partition of a topic, by file and byte range.
 *
 * @param folder of the log
 * @param slices in order of offsets
 */
record ReadTask(Path folder, String topic, int partition, List<Slice> slices) {
  private static final ObjectMapper JSON = new ObjectMapper();

  /** The rows {@code [firstRow, endRow)} of a block whose first row has {@code baseOffset}. */
  record Slice(Block block, long baseOffset, int firstRow, int endRow) {}

  static ReadTask of(InputPartition planned) {
    try {
      return parse(JSON.readTree(PythonPartitions.text(planned)));
    } catch (IOException problem) {
      throw PythonPartitions.otherVersion(problem);
    }
  }

  private static ReadTask parse(JsonNode task) {
    List<Slice> slices = new ArrayList<>();
    task.get("slices").forEach(slice -> slices.add(slice(slice)));
    return new ReadTask(
        Path.of(task.get("path").asText()), task.get("topic").asText(), task.get("partition").asInt(), slices);
  }

  /** The fields of Python's Block and BlockSlice, in their order there. */
  private static Slice slice(JsonNode fields) {
    Block block =
        new Block(
            fields.get(0).asText(),
            fields.get(1).asLong(),
            fields.get(2).asInt(),
            fields.get(3).asLong(),
            fields.get(4).asInt(),
            fields.get(5).asLong(),
            fields.get(6).asLong());
    return new Slice(block, fields.get(7).asLong(), fields.get(8).asInt(), fields.get(9).asInt());
  }
}
