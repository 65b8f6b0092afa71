"""What a jar found out about a micro-batch, and whether a sink may write by it."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog.errors import CorruptDataError, InvalidOptionError, SparkInternalsError
from oncelog.spark.kit import context
from oncelog.spark.kit.context import BatchContext

ROOT = "file:/data/ck"
METADATA = '{"batchWatermarkMs":0}'


def facts(**more: Any) -> dict[str, Any]:
    return {
        "queryId": "query",
        "runId": "run",
        "batchId": 1,
        "checkpointRoot": ROOT,
        "defaultPlace": None,
        "hasName": False,
        "execution": "MicroBatchExecution",
        "trigger": "ProcessingTimeTrigger",
        "entry": f"v1\n{METADATA}\n7\n-",
        "entryBefore": f"v1\n{METADATA}\n3\n-",
        "hasState": False,
        **more,
    }


def test_a_batch_spans_what_its_entry_and_the_one_before_say() -> None:
    assert context.of_facts(facts()) == BatchContext("query", "run", ROOT, 1, ("3", None), ("7", None), False)


def test_the_first_batch_starts_nowhere_and_state_is_told() -> None:
    found = context.of_facts(facts(batchId=0, entryBefore=None, hasState=True))

    assert (found.start_offsets, found.end_offsets, found.has_state) == ((None, None), ("7", None), True)


def test_sources_with_names_are_told_apart_by_them() -> None:
    entry = "v2\n" + METADATA + '\nb:{"at":2}\na:1'
    found = context.of_facts(facts(entry=entry, entryBefore=f"v2\n{METADATA}\na:0"))

    assert (found.start_offsets, found.end_offsets) == (("0", None), ("1", '{"at":2}'))


@pytest.mark.parametrize("execution", ["AsyncProgressTrackingMicroBatchExecution", "RealTimeExecution"])
def test_a_mode_that_logs_offsets_late_is_refused(execution: str) -> None:
    with pytest.raises((InvalidOptionError, SparkInternalsError)):
        context.of_facts(facts(execution=execution))


@pytest.mark.parametrize(
    ("root", "place", "has_name"),
    [
        ("file:/tmp/temporary-0a1b2c3d-0000-0000-0000-000000000000", None, False),
        ("file:/cks/0a1b2c3d-0000-0000-0000-000000000000", "/cks", False),
    ],
)
def test_a_checkpoint_that_the_next_start_does_not_find_is_refused(root: str, place: str, has_name: bool) -> None:
    with pytest.raises(InvalidOptionError, match="no checkpoint of its own"):
        context.of_facts(facts(checkpointRoot=root, defaultPlace=place, hasName=has_name))


@pytest.mark.parametrize("entry", [None, "", "v1", "v3\n{}\n7", "v2\n{}\nno colon"])
def test_an_entry_that_spark_did_not_write_is_named(entry: str | None) -> None:
    with pytest.raises(CorruptDataError, match=r"offsets/1"):
        context.of_facts(facts(entry=entry))
