package io.oncelog.spark.blocks;

/** Records that a reader still needed cannot be found. */
public final class DataLossError extends OncelogError {
  DataLossError(String text, Throwable cause, Object... fields) {
    super("DataLossError", text, cause, fields);
  }
}
