package io.oncelog.spark;

import com.fasterxml.jackson.annotation.JsonFormat;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.oncelog.spark.blocks.Block;
import java.io.IOException;
import java.util.List;
import org.apache.spark.sql.connector.read.InputPartition;

/**
 * What one task reads, as Python planned it: rows of one partition of a topic, by file and byte range. It is written as
 * JSON arrays, with the values in the order of the components here.
 *
 * @param folder of the log
 * @param slices in order of offsets
 */
@JsonFormat(shape = JsonFormat.Shape.ARRAY)
record ReadTask(String folder, String topic, int partition, List<Slice> slices) {
  private static final ObjectMapper JSON =
      new ObjectMapper().enable(DeserializationFeature.FAIL_ON_MISSING_CREATOR_PROPERTIES);

  /** The rows {@code [firstRow, endRow)} of a block whose first row has {@code baseOffset}. */
  @JsonFormat(shape = JsonFormat.Shape.ARRAY)
  record Slice(Block block, long baseOffset, long firstRow, long endRow) {}

  static ReadTask of(InputPartition planned) {
    try {
      return parse(PythonPartitions.text(planned));
    } catch (IOException problem) {
      throw PythonPartitions.otherVersion(problem);
    }
  }

  static ReadTask parse(String json) throws IOException {
    return JSON.readValue(json, ReadTask.class);
  }
}
