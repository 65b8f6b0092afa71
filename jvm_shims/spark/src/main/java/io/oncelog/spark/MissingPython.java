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
 * Why Spark's Python does not know a data source of oncelog's: Spark itself says only that there is no such source. The
 * Kafka connector's jar carries this class too.
 */
public final class MissingPython {
  private static final long PATIENCE_S = 30;

  private MissingPython() {}

  /**
   * What is wrong with the interpreter that Spark asks for data sources, and what mends it.
   *
   * @param problem of a look-up; one that does not say that there is no such source is thrown as it is
   * @param module that has the source
   * @param product that brings the module, as pip calls it
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
      return "UsageError: Spark's Python has no oncelog that works; pip install \"" + product + "\" there, or set "
          + "PYSPARK_PYTHON to an interpreter that has it, where Spark (with Spark Connect, its server) is started; "
          + "python=" + python + ", cause=" + lastWords(python, module);
    } catch (IOException notStarted) {
      return "UsageError: Spark's Python cannot be started; set PYSPARK_PYTHON to an interpreter that has oncelog, "
          + "where Spark (with Spark Connect, its server) is started; python=" + python;
    }
  }

  /** The last line that the interpreter prints when it is to import the module. */
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
          ? "Spark did not find it when it looked, and looks once only: start Spark again"
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
