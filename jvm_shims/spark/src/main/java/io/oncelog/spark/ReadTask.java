package io.oncelog.spark;

import com.fasterxml.jackson.annotation.JsonFormat;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.oncelog.spark.blocks.Block;
import java.io.IOException;
import java.util.List;
import net.razorvine.pickle.PickleException;
import net.razorvine.pickle.Unpickler;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.execution.datasources.v2.python.PythonInputPartition;
import org.apache.spark.sql.execution.datasources.v2.python.PythonStreamingInputPartition;

/**
 * What one task reads, as Python planned it: rows of one partition of a topic, by file and byte range. Arrays of JSON
 * hold it, with the values in the order of the components here.
 *
 * @param folder of the log
 * @param slices in order of offsets
 */
@JsonFormat(shape = JsonFormat.Shape.ARRAY)
record ReadTask(String folder, String topic, int partition, List<Slice> slices) {
  private static final ObjectMapper JSON =
      new ObjectMapper().enable(DeserializationFeature.FAIL_ON_MISSING_CREATOR_PROPERTIES);

  static {
    // A pickled task is a call of this function of Python's, with the task as JSON (task_partition.py).
    Unpickler.registerConstructor("oncelog.spark.task_partition", "task_partition", arguments -> arguments[0]);
  }

  /** The rows {@code [firstRow, endRow)} of a block whose first row has {@code baseOffset}. */
  @JsonFormat(shape = JsonFormat.Shape.ARRAY)
  record Slice(Block block, long baseOffset, long firstRow, long endRow) {}

  static ReadTask of(InputPartition planned) {
    try {
      return parse((String) new Unpickler().loads(pickled(planned)));
    } catch (IOException | PickleException | ClassCastException problem) {
      throw new IllegalStateException("this jar and the Python package oncelog are not of one version", problem);
    }
  }

  static ReadTask parse(String json) throws IOException {
    return JSON.readValue(json, ReadTask.class);
  }

  private static byte[] pickled(InputPartition planned) {
    return planned instanceof PythonStreamingInputPartition ofStream
        ? ofStream.pickedPartition()
        : ((PythonInputPartition) planned).pickedPartition();
  }
}
