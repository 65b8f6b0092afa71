package io.oncelog.kafka.sink;

import java.util.Iterator;
import java.util.function.Supplier;
import org.apache.spark.sql.catalyst.InternalRow;

/** The rows of a task. Marks failures of the plan that produces them, to tell them from failures of Kafka's client. */
final class PlanRows implements Iterator<InternalRow> {
  /** What the plan threw; Spark and the user get it unchanged. */
  static final class Failure extends RuntimeException {
    private final RuntimeException thrown;

    private Failure(RuntimeException thrown) {
      super(thrown);
      this.thrown = thrown;
    }

    RuntimeException ofThePlan() {
      return thrown;
    }
  }

  private final Iterator<InternalRow> rows;

  PlanRows(Iterator<InternalRow> rows) {
    this.rows = rows;
  }

  @Override
  public boolean hasNext() {
    return marked(rows::hasNext);
  }

  @Override
  public InternalRow next() {
    return marked(rows::next);
  }

  private static <T> T marked(Supplier<T> step) {
    try {
      return step.get();
    } catch (RuntimeException problem) {
      throw new Failure(problem);
    }
  }
}
