package io.oncelog.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.oncelog.spark.blocks.Block;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.junit.jupiter.api.Test;

class ReadTaskTest {
  /** A task as Python writes it; test_task_partition.py checks the same file. */
  private static String written() throws IOException {
    try (InputStream file = ReadTaskTest.class.getResourceAsStream("task.json")) {
      return new String(file.readAllBytes(), StandardCharsets.UTF_8).strip();
    }
  }

  @Test
  void everyValueOfPythonsTaskArrivesInItsPlace() throws IOException {
    Block first = new Block("data/00000001-a.avro", 16, 1L << 40, (1L << 32) - 1, 10, -1, 1_700_000_000_099L);
    Block second = new Block("data/00000002-b.avro", 1L << 53, 77, 0, 3, 5, 6);

    assertEquals(
        new ReadTask(
            "/a folder:größe",
            "flights",
            3,
            List.of(new ReadTask.Slice(first, 100, 2, 9), new ReadTask.Slice(second, 1L << 62, 0, 3))),
        ReadTask.parse(written()));
  }

  @Test
  void aTaskOfAnotherShapeIsRefused() throws IOException {
    String task = written();

    assertThrows(IOException.class, () -> ReadTask.parse(task.replaceFirst("16,", "")), "a block without a field");
    assertThrows(IOException.class, () -> ReadTask.parse(task.replaceFirst(",2,9", ",2")), "rows without an end");
    assertThrows(IOException.class, () -> ReadTask.parse("{}"));
  }
}
