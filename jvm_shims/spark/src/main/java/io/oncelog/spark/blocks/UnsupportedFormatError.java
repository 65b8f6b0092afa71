package io.oncelog.spark.blocks;

/** A file has a format version that this oncelog does not know: upgrade oncelog. */
public final class UnsupportedFormatError extends OncelogError {
  UnsupportedFormatError(String text, Throwable cause, Object... fields) {
    super("UnsupportedFormatError", text, cause, fields);
  }
}
