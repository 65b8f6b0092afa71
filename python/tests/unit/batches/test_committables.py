"""What a sink has decided is completed without its query: by whoever asks for it, and only what is decided."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from oncelog.batches import overview
from oncelog.batches.attempt import Batch
from oncelog.batches.committables import CommittableAttempt, CommittableRound
from oncelog.batches.ledger import LOG, PLUGGED_IN, LedgerKind, all_kinds
from oncelog.batches.overview import LedgerOverview
from oncelog.batches.rules import BatchRequest
from oncelog.batches.steps import REMEMBERED_ROUNDS
from oncelog.crash_points import CrashPoint
from oncelog.testing.target_contract import FIRST, SECOND, StoppedOnPurposeError, at, stop
from oncelog.types import Outcome
from tests.support.spark.targets import TEXTS, TextFolderWorld


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TextFolderWorld]:
    """Its drivers clean up nothing when they die."""
    monkeypatch.setattr(CommittableAttempt, "abort", lambda self: None)
    found = TextFolderWorld(tmp_path)
    yield found
    found.close()


@pytest.fixture
def texts_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds: dict[str, LedgerKind[Any]] = {**all_kinds(), "texts": TEXTS}
    monkeypatch.setattr(overview, "all_kinds", lambda: kinds)


def die(world: TextFolderWorld, point: str, batch_id: int) -> None:
    with at(point, stop), pytest.raises(StoppedOnPurposeError):
        world.run(batch_id, SECOND)


def completed(world: TextFolderWorld) -> tuple[list[CommittableRound], int]:
    """As a process that knows nothing of the batch and its rows."""
    asked = BatchRequest(world.prefix, "query", "sink", "run", -1, "")
    return world.target().attempt(Batch(asked, None)).complete()


def complete(world: TextFolderWorld) -> list[CommittableRound]:
    return completed(world)[0]


def known(world: TextFolderWorld) -> LedgerOverview:
    (found,) = overview.find_ledgers(world.store, world.prefix)
    return found


@pytest.mark.usefixtures("texts_are_known")
def test_a_decided_batch_is_shown_once(world: TextFolderWorld) -> None:
    world.run(0, FIRST)
    die(world, CrashPoint.ROUND_DECIDED, 1)
    before = known(world)

    completed = complete(world)

    assert [one.batch_id for one in completed] == [1]
    assert world.holds(FIRST, SECOND)
    assert world.place.left_over == []
    assert complete(world) == []
    assert (before.is_over, before.recovery) == (False, "completes the batch, and writes the next one")
    assert known(world) == replace(before, is_over=True, recovery="writes its next batch")
    assert len(before.parts) == len(SECOND)
    assert world.run(1, SECOND, "run-2").is_replay
    assert world.holds(FIRST, SECOND)


def test_a_batch_that_is_not_decided_is_left_to_its_driver(world: TextFolderWorld) -> None:
    with at(CrashPoint.ROUND_DECIDE, lambda: complete(world)):
        world.run(0, FIRST)

    assert world.holds(FIRST)


@pytest.mark.usefixtures("texts_are_known")
def test_what_a_dead_driver_wrote_is_removed_once_its_round_is_aborted(world: TextFolderWorld) -> None:
    die(world, CrashPoint.ROUND_DECIDE, 0)
    assert complete(world) == []
    assert len(world.place.left_over) == len(SECOND)

    aborted = overview.abort(world.store, world.prefix)

    assert aborted == {"texts": 1}
    assert known(world).recovery == "removes what is left of this round, and writes the batch again"
    assert [one.outcome for one in complete(world)] == [Outcome.ABORT]
    assert (world.place.left_over, known(world).recovery) == ([], "writes the batch again")
    assert overview.abort(world.store, world.prefix) == {}
    world.run(0, FIRST, "run-2")
    assert world.holds(FIRST)


def test_what_a_task_of_a_dead_driver_writes_later_is_removed_too(world: TextFolderWorld) -> None:
    die(world, CrashPoint.ROUND_DECIDE, 0)
    TEXTS.abort(world.store, world.prefix, 1)
    (late,) = {path.parent for path in world.place.left_over}
    complete(world)
    late.mkdir()
    (late / "late").write_text("late")

    assert complete(world) == []

    assert world.place.left_over == []


def test_what_is_staged_is_removed_once_the_ledger_has_forgotten_it(world: TextFolderWorld) -> None:
    for batch_id in range(REMEMBERED_ROUNDS + 2):
        world.run(batch_id, [f"row-{batch_id}"])
    die(world, CrashPoint.ROUND_DECIDE, REMEMBERED_ROUNDS + 2)
    under_way = world.place.left_over
    (world.place.hidden / "late").mkdir()
    (world.place.hidden / "late" / "late").write_text("late")

    assert completed(world) == ([], 1)

    assert world.place.left_over == under_way
    assert completed(world) == ([], 0)


def test_the_kinds_of_ledgers_have_the_names_of_their_targets() -> None:
    assert {LOG, "kafka", "files", "postgres", "delta", "iceberg", "once"} <= all_kinds().keys()
    assert PLUGGED_IN == "oncelog.ledgers"
