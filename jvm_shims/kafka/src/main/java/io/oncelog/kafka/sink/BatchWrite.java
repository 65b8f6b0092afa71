package io.oncelog.kafka.sink;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.oncelog.kafka.PythonSteps;
import io.oncelog.spark.MicroBatchRows;
import java.util.concurrent.TimeUnit;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;

/** {@code df.write}: writes all rows or none. Like any batch write, it appends again if it is run again. */
public final class BatchWrite {
  private static final String INSTEAD =
      "call oncelog_kafka.sink(...) in the function, with the DataFrame and the batch id, or write the stream with "
          + "writeStream.format(\"oncelog-kafka\"), as Spark Connect needs it";

  private BatchWrite() {}

  public static BaseRelation run(
      SQLContext context, SaveMode mode, scala.collection.immutable.Map<String, String> options, Dataset<Row> rows) {
    if (mode == SaveMode.Overwrite || mode == SaveMode.Ignore) {
      throw new IllegalArgumentException(
          "a topic can only be appended to; leave the mode out, or use mode(\"append\"); mode=" + mode);
    }
    MicroBatchRows.refuse((SparkSession) rows.sparkSession(), rows.queryExecution().analyzed(), INSTEAD);
    PythonSteps python = new PythonSteps(rows.schema(), CollectionConverters.asJava(options));
    ObjectNode request = PythonSteps.newObject();
    request.put("speculates", context.sparkContext().getConf().getBoolean("spark.speculation", false));
    JsonNode planned = python.ask("plan", request);
    request.set("attempt", planned.get("attempt"));
    long began = System.nanoTime();
    try {
      request.set("outcomes", PythonSteps.parse(BatchWriter.write(rows, planned.get("settings").toString())));
    } catch (Throwable problem) {
      try {
        python.ask("abort", request);
      } catch (RuntimeException another) {
        problem.addSuppressed(another);
      }
      throw problem;
    }
    request.put("job_ms", TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - began));
    python.ask("commit", request);
    return relation(context, rows.schema());
  }

  private static BaseRelation relation(SQLContext context, StructType schema) {
    return new BaseRelation() {
      @Override
      public SQLContext sqlContext() {
        return context;
      }

      @Override
      public StructType schema() {
        return schema;
      }
    };
  }
}
