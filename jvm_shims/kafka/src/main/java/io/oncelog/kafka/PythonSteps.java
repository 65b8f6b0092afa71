package io.oncelog.kafka;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.oncelog.spark.MissingPython;
import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import net.razorvine.pickle.PickleException;
import net.razorvine.pickle.Unpickler;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Calls the connector's Python side ({@code oncelog_kafka.data_source}), which makes all decisions. It has Spark ask a
 * Python data source for a writer, and the writer that comes back contains the answer as text. Unlike foreachBatch,
 * this needs no running Python program to call back, so it also works on Spark Connect's servers.
 */
public final class PythonSteps {
  private static final String REQUEST = "@request";

  /** Where a user's own login module is looked for, because Python's processes do not know Spark's jars. */
  private static final String LOGIN_JARS = "admin.jars";

  /** System properties that name the files with a login, for the same reason; each is an option under "admin.". */
  private static final List<String> LOGIN_FILES =
      List.of("java.security.auth.login.config", "java.security.krb5.conf");

  private static final ObjectMapper JSON = new ObjectMapper();

  static {
    // A pickled answer is a call of this Python function with a text.
    Unpickler.registerConstructor("oncelog_kafka.data_source", "answer", arguments -> arguments[0]);
  }

  /** An error of the Python side, with the name of its class. PySpark shows only the message of such an exception. */
  private static final class RefusedException extends IllegalArgumentException {
    RefusedException(String message) {
      super(message);
      setStackTrace(new StackTraceElement[0]); // the message is enough, and frames would bury it in Spark's log
    }
  }

  private final StructType schema;
  private final Map<String, String> options;

  /**
   * @param schema of the rows
   * @param options as the user gave them
   */
  public PythonSteps(StructType schema, Map<String, String> options) {
    this.schema = schema;
    this.options = options;
  }

  /** Takes a step; returns its answer. */
  public JsonNode ask(String step, ObjectNode request) {
    Map<String, String> all = new HashMap<>(options);
    all.put(REQUEST, request.put("step", step).put("jar", Version.get()).toString());
    all.putIfAbsent(LOGIN_JARS, jarsOfSpark());
    for (String name : LOGIN_FILES) {
      Optional.ofNullable(System.getProperty(name)).ifPresent(file -> all.putIfAbsent("admin." + name, file));
    }
    byte[] writer =
        source()
            .createWriteInfoInPython(KafkaProvider.NAME, schema, new CaseInsensitiveStringMap(all), false, true)
            .writer();
    JsonNode answer = parse(unpickled(writer));
    if (answer.has("error")) {
      throw new RefusedException(answer.get("error").asText());
    }
    return answer;
  }

  private static UserDefinedPythonDataSource source() {
    PythonDataSourceV2 python = new PythonDataSourceV2();
    python.setShortName(KafkaProvider.NAME);
    try {
      return python.source();
    } catch (Exception notFound) { // Spark throws checked exceptions, which Scala does not declare
      throw MissingPython.why(notFound, "pyspark_oncelog_kafka", "oncelog[spark,kafka]");
    }
  }

  private static String jarsOfSpark() {
    return SparkContext.getOrCreate().getConf().get("spark.jars", "").replaceAll("(^|,)(file|local):(//)?", "$1");
  }

  /**
   * Lets a Python process import its modules and connect. Returns the refusal of the Python side, such as that no
   * broker answers; null without one. Other errors are ignored: the first real step shows them, and none follows when
   * the program ends meanwhile. Some are checked exceptions, which Scala does not declare.
   */
  public RuntimeException warmUp() {
    try {
      ask("warm", newObject());
    } catch (RefusedException refused) {
      return refused;
    } catch (Exception shownLater) {
      return null;
    }
    return null;
  }

  public static ObjectNode newObject() {
    return JSON.createObjectNode();
  }

  public static JsonNode parse(String text) {
    try {
      return JSON.readTree(text);
    } catch (JsonProcessingException problem) {
      throw otherVersion(problem);
    }
  }

  public static JsonNode orNull(JsonNode node) {
    return node == null || node.isNull() ? null : node;
  }

  private static String unpickled(byte[] writer) {
    try {
      return (String) new Unpickler().loads(writer);
    } catch (IOException | PickleException | ClassCastException problem) {
      throw otherVersion(problem);
    }
  }

  private static IllegalStateException otherVersion(Exception problem) {
    return new IllegalStateException("this jar and the Python package oncelog_kafka have different versions", problem);
  }
}
