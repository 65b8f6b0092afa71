package io.oncelog.spark;

import java.io.IOException;
import net.razorvine.pickle.PickleException;
import net.razorvine.pickle.Unpickler;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.execution.datasources.v2.python.PythonInputPartition;
import org.apache.spark.sql.execution.datasources.v2.python.PythonStreamingInputPartition;

/** Reads what Python planned: JSON within a pickle (task_partition.py). */
final class PythonPartitions {
  static {
    // A pickled partition is a call of this Python function with a text.
    Unpickler.registerConstructor("oncelog.spark.task_partition", "task_partition", arguments -> arguments[0]);
  }

  private PythonPartitions() {}

  static String text(InputPartition planned) {
    try {
      return (String) new Unpickler().loads(pickled(planned));
    } catch (IOException | PickleException | ClassCastException problem) {
      throw otherVersion(problem);
    }
  }

  static IllegalStateException otherVersion(Exception problem) {
    return new IllegalStateException("this jar and the Python package oncelog have different versions", problem);
  }

  private static byte[] pickled(InputPartition planned) {
    return planned instanceof PythonStreamingInputPartition ofStream
        ? ofStream.pickedPartition()
        : ((PythonInputPartition) planned).pickedPartition();
  }
}
