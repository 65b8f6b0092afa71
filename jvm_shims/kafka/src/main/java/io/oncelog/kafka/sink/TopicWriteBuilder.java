package io.oncelog.kafka.sink;

import io.oncelog.kafka.PythonSteps;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.connector.distributions.Distribution;
import org.apache.spark.sql.connector.distributions.Distributions;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.write.RequiresDistributionAndOrdering;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.V1Write;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.internal.connector.SupportsStreamingUpdateAsAppend;
import org.apache.spark.sql.sources.InsertableRelation;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A streaming write in any output mode, or an INSERT INTO a table of the catalog: the rows are appended, as in Spark's
 * own Kafka sink.
 */
public final class TopicWriteBuilder implements WriteBuilder, SupportsTruncate, SupportsStreamingUpdateAsAppend {
  private final SinkState state;
  private final StructType schema;
  private final CaseInsensitiveStringMap options;

  public TopicWriteBuilder(SinkState state, StructType schema, CaseInsensitiveStringMap options) {
    this.state = state;
    this.schema = schema;
    this.options = options;
  }

  @Override
  public WriteBuilder truncate() {
    return this;
  }

  @Override
  public Write build() {
    return new TopicWrite(state, schema, options);
  }

  /**
   * The write of one batch. If lost participants may be written again, a row's participant must depend only on the
   * row's content, which Spark does not promise for a replay by itself.
   */
  private record TopicWrite(SinkState state, StructType schema, CaseInsensitiveStringMap options)
      implements RequiresDistributionAndOrdering, V1Write {
    private static final String[] WHOLE = {"topic", "partition"};

    @Override
    public StreamingWrite toStreaming() {
      return new MicroBatch(state, new PythonSteps(schema, options), buckets(), options.containsKey("groupId"));
    }

    @Override
    public InsertableRelation toInsertableRelation() {
      return (rows, overwrites) ->
          BatchWrite.run(
              ((org.apache.spark.sql.classic.Dataset<Row>) rows).sqlContext(),
              overwrites ? SaveMode.Overwrite : SaveMode.Append,
              scala.collection.immutable.Map.from(CollectionConverters.asScala(options.asCaseSensitiveMap())),
              rows);
    }

    @Override
    public Distribution requiredDistribution() {
      return buckets() == null ? Distributions.unspecified() : Distributions.clustered(content());
    }

    @Override
    public int requiredNumPartitions() {
      return buckets() == null ? 0 : buckets();
    }

    @Override
    public SortOrder[] requiredOrdering() {
      return new SortOrder[0];
    }

    @Override
    public String description() {
      return "oncelog-kafka";
    }

    private Expression[] content() {
      List<Expression> found = new ArrayList<>();
      for (String name : WHOLE) {
        if (has(name)) {
          found.add(Expressions.column(name));
        }
      }
      found.add(Expressions.column(has("key") ? "key" : "value"));
      return found.toArray(Expression[]::new);
    }

    private boolean has(String column) {
      return Arrays.asList(schema.fieldNames()).contains(column);
    }

    /** The number of content-hash participants; null if Spark's partitions are the participants. */
    private Integer buckets() {
      if (!options.getOrDefault("onTimedOutParticipant", "").strip().equalsIgnoreCase("rewrite")) {
        return null;
      }
      String wanted = options.getOrDefault("participants", "").strip();
      return wanted.matches("[1-9][0-9]{0,8}")
          ? Integer.valueOf(wanted)
          : SparkContext.getOrCreate().defaultParallelism();
    }
  }
}
