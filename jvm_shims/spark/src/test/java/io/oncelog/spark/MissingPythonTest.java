package io.oncelog.spark;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class MissingPythonTest {
  @TempDir Path folder;

  @Test
  void anInterpreterThatIsNotThereIsNamed() {
    String told = MissingPython.why("/nowhere/python", "some_module", "some[product]");

    assertTrue(told.startsWith("UsageError: Spark's Python cannot be started; set PYSPARK_PYTHON to an"), told);
    assertTrue(told.endsWith("python=/nowhere/python"), told);
  }

  @Test
  void whatTheInterpreterSaysLastIsTheCause() throws IOException {
    String told = MissingPython.why(interpreter("echo first; echo \"No module: $2\"; exit 1"), "m", "some[product]");

    assertTrue(told.contains("install some[product] there"), told);
    assertTrue(told.endsWith("cause=No module: import m"), told);
  }

  @Test
  void anInterpreterThatHasTheModuleByNowWasAskedTooEarly() throws IOException {
    String told = MissingPython.why(interpreter("exit 0"), "m", "some[product]");

    assertTrue(told.endsWith("did not find it then: start Spark again"), told);
  }

  private String interpreter(String script) throws IOException {
    Path file = Files.writeString(folder.resolve("python"), "#!/bin/sh\n" + script + "\n");
    return Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rwx------")).toString();
  }
}
