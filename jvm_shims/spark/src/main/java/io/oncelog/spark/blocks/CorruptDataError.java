package io.oncelog.spark.blocks;

/** A file does not contain what was written (CRC, length, or structure). */
public final class CorruptDataError extends OncelogError {
  CorruptDataError(String text, Throwable cause, Object... fields) {
    super("CorruptDataError", text, cause, fields);
  }
}
