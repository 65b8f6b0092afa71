package io.oncelog.spark.tables;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.parquet.schema.GroupType;
import org.apache.parquet.schema.LogicalTypeAnnotation;
import org.apache.parquet.schema.MessageType;
import org.apache.parquet.schema.Type;

/**
 * The field ids of the elements of lists and of the keys and values of maps, in the order in which a walk through the
 * schema comes to them: each before those within it.
 */
final class NestedFieldIds {
  /** The option of the writer that has them, separated by commas. */
  static final String OPTION = "oncelog.nested.field.ids";

  private final int[] ids;
  private int next = 0;

  private NestedFieldIds(int[] ids) {
    this.ids = ids;
  }

  static NestedFieldIds parse(String option) {
    return new NestedFieldIds(Arrays.stream(option.split(",")).mapToInt(Integer::parseInt).toArray());
  }

  /** The schema with all ids; it must have as many places for them as there are ids. */
  MessageType fill(MessageType schema) {
    MessageType filled = new MessageType(schema.getName(), fields(schema, false));
    if (next != ids.length) {
      throw new IllegalArgumentException("the schema has places for " + next + " of " + ids.length + " field ids");
    }
    return filled;
  }

  private List<Type> fields(GroupType group, boolean nested) {
    List<Type> fields = new ArrayList<>();
    for (Type field : group.getFields()) {
      fields.add(filled(nested ? field.withId(taken()) : field));
    }
    return fields;
  }

  private Type filled(Type field) {
    if (field.isPrimitive()) {
      return field;
    }
    GroupType group = field.asGroupType();
    if (!isRepeating(group)) {
      return group.withNewFields(fields(group, false));
    }
    GroupType repeated = group.getType(0).asGroupType();
    return group.withNewFields(repeated.withNewFields(fields(repeated, true)));
  }

  private int taken() {
    if (next == ids.length) {
      throw new IllegalArgumentException("the schema has places for more than " + next + " field ids");
    }
    return ids[next++];
  }

  private static boolean isRepeating(GroupType group) {
    LogicalTypeAnnotation kind = group.getLogicalTypeAnnotation();
    return kind instanceof LogicalTypeAnnotation.ListLogicalTypeAnnotation
        || kind instanceof LogicalTypeAnnotation.MapLogicalTypeAnnotation;
  }
}
