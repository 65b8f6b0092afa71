"""A task on its way from the driver, where Python planned it, to Python or the JVM, which read it."""

from __future__ import annotations

import pickle

from oncelog.spark.planner import ReadTask
from oncelog.spark.task_partition import TaskPartition
from oncelog.types import Block, BlockSlice
from tests.style.tree import ROOT

# ReadTaskTest.java reads the same file. No two values are equal, so that one in another's place is found.
WRITTEN = ROOT / "jvm_shims" / "spark" / "src" / "test" / "resources" / "io" / "oncelog" / "spark" / "task.json"
TASK = ReadTask(
    "/a folder:größe",
    "flights",
    3,
    (
        BlockSlice(Block("data/00000001-a.avro", 16, 2**40, 2**32 - 1, 10, -1, 1_700_000_000_099), 100, 2, 9),
        BlockSlice(Block("data/00000002-b.avro", 2**53, 77, 0, 3, 5, 6), 2**62, 0, 3),
    ),
)


def test_a_task_is_written_as_the_jvm_reads_it() -> None:
    _, (text,) = TaskPartition(TASK).__reduce__()

    assert text == WRITTEN.read_text().strip()


def test_a_task_arrives_in_another_process_as_it_was_planned() -> None:
    assert pickle.loads(pickle.dumps(TaskPartition(TASK))).task == TASK
