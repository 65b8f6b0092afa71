package io.oncelog.spark;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.spark.api.python.PythonUtils$;
import org.apache.spark.sql.AnalysisException;

/**
 * Finds out why Spark's Python does not know oncelog's data source; Spark itself only says that there is none. The
 * Kafka connector's jar contains this class too.
 */
public final class MissingPython {
  private static final long PATIENCE_S = 30;

  private MissingPython() {}

  /**
   * What is wrong with the interpreter that Spark asks for data sources, and how to fix it.
   *
   * @param problem the exception of the look-up; thrown again if it does not say that there is no such source
   * @param module the Python module with the source
   * @param product what to install to get the module
   */
  @SuppressWarnings("unchecked")
  public static <T extends Throwable> IllegalArgumentException why(Exception problem, String module, String product)
      throws T {
    if (!(problem instanceof AnalysisException)) {
      throw (T) problem;
    }
    return new IllegalArgumentException(why(PythonUtils$.MODULE$.defaultPythonExec(), module, product));
  }

  static String why(String python, String module, String product) {
    try {
      return "UsageError: Spark's Python has no working oncelog; install " + product + " there, or start Spark "
          + "(or the server of Spark Connect) with PYSPARK_PYTHON set to an interpreter that has it; "
          + "python=" + python + ", cause=" + lastWords(python, module);
    } catch (IOException notStarted) {
      return "UsageError: Spark's Python cannot be started; set PYSPARK_PYTHON to an interpreter that has oncelog, "
          + "and start Spark (or the server of Spark Connect) again; python=" + python;
    }
  }

  /** The last line that the interpreter prints when it imports the module. */
  private static String lastWords(String python, String module) throws IOException {
    Path output = Files.createTempFile("oncelog-", ".txt");
    try {
      ProcessBuilder asked = new ProcessBuilder(python, "-c", "import " + module);
      asked.environment().merge("PYTHONPATH", PythonUtils$.MODULE$.sparkPythonPath(), MissingPython::behind);
      Process process = asked.redirectErrorStream(true).redirectOutput(output.toFile()).start();
      if (!process.waitFor(PATIENCE_S, TimeUnit.SECONDS)) {
        process.destroyForcibly();
        return "it does not answer";
      }
      List<String> lines = Files.readString(output).strip().lines().toList();
      return process.exitValue() == 0 || lines.isEmpty()
          ? "Spark looks for it only once, and did not find it then: start Spark again"
          : lines.get(lines.size() - 1);
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
      return "the query was stopped";
    } finally {
      Files.delete(output);
    }
  }

  private static String behind(String ofUser, String ofSpark) {
    return ofSpark + File.pathSeparator + ofUser;
  }
}
