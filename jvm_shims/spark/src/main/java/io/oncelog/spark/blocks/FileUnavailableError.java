package io.oncelog.spark.blocks;

/** A file cannot be read now; the reason is the file system's. Try again. */
public final class FileUnavailableError extends OncelogError {
  FileUnavailableError(String text, Throwable cause, Object... fields) {
    super("FileUnavailableError", text, cause, fields);
  }
}
