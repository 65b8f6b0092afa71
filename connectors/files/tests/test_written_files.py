"""Which tasks wrote files that the driver does not see, by the names of Spark's writer."""

from __future__ import annotations

import pytest

from oncelog.spark.kit.spark_files import FoundFile
from oncelog_files.jobs import Written


@pytest.mark.parametrize(
    ("tasks", "names", "unseen"),
    [
        ({1, 2}, ["part-00001-a.parquet", "part-00002-a.parquet"], []),
        ({1, 2}, ["part-00001-a.parquet"], [2]),
        ({1, 2}, ["part-00000-a.parquet", "part-00002-a.parquet"], [1]),
        ({0, 1, 100_000}, ["p=part-00001-x/part-00000-a.c000.json"], [1, 100_000]),
        ({3}, ["p=a/part-00003-a.parquet", "p=b/part-00003-a-c001.parquet"], []),
        ({1, 2}, ["part-00007-a.parquet"], []),
        ({1, 2}, ["part-00001-a.parquet", "named-by-another-writer"], []),
    ],
)
def test_a_task_with_rows_has_a_file(tasks: set[int], names: list[str], unseen: list[int]) -> None:
    written = Written(8, frozenset(tasks))

    assert written.unseen([FoundFile(name, 1) for name in names]) == unseen
