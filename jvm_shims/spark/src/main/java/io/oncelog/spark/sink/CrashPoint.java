package io.oncelog.spark.sink;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * The named points of a task at which a test may kill its process. They are those of Python's crash_points.py, armed by
 * the same environment variable.
 */
enum CrashPoint {
  TASK_WRITE("task.write"),
  FILE_FINISH("file.finish"),
  FILE_FINISHED("file.finished");

  private static final String ARMED = System.getenv("ONCELOG_CRASH_AT");

  private final String name;

  CrashPoint(String name) {
    this.name = name;
  }

  /** Called by the code at this point. */
  void reach() {
    if (ARMED != null && ARMED.startsWith(name + ":")) {
      String[] fault = ARMED.split(":", 3);
      killOnce(fault[1], Path.of(fault[2]));
    }
  }

  /**
   * Kills this process with SIGKILL, unless the mark exists.
   *
   * @param other a process to kill before this one, or a process group if it is negative; 0 for none
   */
  private static void killOnce(String other, Path mark) {
    try {
      Files.createFile(mark);
      List<String> kill = new ArrayList<>(List.of("kill", "-KILL", "--"));
      if (!other.equals("0")) {
        kill.add(other);
      }
      kill.add(String.valueOf(ProcessHandle.current().pid()));
      new ProcessBuilder(kill).start().waitFor();
    } catch (FileAlreadyExistsException killedBefore) {
      return;
    } catch (IOException problem) {
      throw new UncheckedIOException(problem);
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
    }
  }
}
