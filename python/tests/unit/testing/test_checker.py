"""The checker finds every anomaly that is planted into a history, and none in a clean one.

conformance: 66.
"""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from oncelog.errors import UsageError
from oncelog.testing.checker import Anomaly, judge
from oncelog.testing.checker.__main__ import ANOMALIES, CLEAN, UNREADABLE, main
from oncelog.testing.history import (
    End,
    Ending,
    Event,
    Fetch,
    Fetched,
    Kind,
    Piece,
    Plan,
    Planned,
    Poll,
    Polled,
    Recorder,
    Stage,
    Write,
    Written,
    writing,
)
from oncelog.types import IsolationLevel
from tests.unit.testing.model_log import ModelLog, Reader, random_history
from tests.unit.testing.plants import PLANTS

SEEDS = st.integers(0, 2**32)


@given(SEEDS)
@settings(max_examples=150, deadline=None)
def test_nothing_is_found_in_a_clean_history(seed: int) -> None:
    """conformance: 66."""
    report = judge(random_history(seed))

    assert report.is_clean, str(report)
    assert report.counts["events"] > 0


@pytest.mark.parametrize("name", PLANTS)
@given(seed=SEEDS)
@settings(max_examples=12, deadline=None)
def test_what_is_planted_is_found(name: str, seed: int) -> None:
    """conformance: 66."""
    plant, expected = PLANTS[name]
    planted = plant(random_history(seed), random.Random(seed))
    assume(planted is not None)

    found = judge(planted or [])

    assert expected & set(found.anomalies), str(found)
    assert all(finding.events for finding in found.findings)


@given(SEEDS)
@settings(max_examples=50, deadline=None)
def test_a_history_that_ends_anywhere_is_clean_until_a_final_reader_tells_more(seed: int) -> None:
    events = random_history(seed)
    end = random.Random(seed).randrange(len(events))

    assert judge(events[:end]).is_clean


def test_every_anomaly_has_a_plant() -> None:
    assert set().union(*(found for _, found in PLANTS.values())) == set(Anomaly)


def test_an_unknown_outcome_may_be_either_but_only_of_the_whole() -> None:
    log = ModelLog()
    for is_committed in (True, False):
        owner = log.begin()
        for partition in (0, 1):
            log.write("copier", owner, partition, 5, is_told=False)
        if is_committed:
            log.commit("copier", owner, is_told=False)
        else:
            log.give_up("copier", owner, is_asked=True)
    log.finish([])

    report = judge(log.events)
    assert report.is_clean, str(report)
    assert report.counts["of unknown outcome"] == 2

    half = [_without_partition(event, 1) for event in log.events]
    assert set(judge(half).anomalies) == {Anomaly.TORN_TRANSACTION}


def test_a_commit_that_is_refused_behind_one_without_an_answer_leaves_the_outcome_unknown() -> None:
    """The first one may have been carried out, and the second one have come too late."""
    recorder, events = _recorder()
    _write(recorder, "t", [(0, 10)], 0)
    recorder.unknown(recorder.invoke(End("t", Ending.COMMIT)))
    recorder.fail(recorder.invoke(End("t", Ending.COMMIT)))
    _read_all(recorder, [(0, 0, 10)], end=11)

    assert judge(events).is_clean, str(judge(events))


def test_a_commit_that_its_process_did_not_outlive_stays_open_though_the_next_life_has_the_same_name() -> None:
    """As in a container, where every life has the same pid, and counts its calls anew."""
    events: list[Event] = []
    for transaction, first in (("t", 0), ("u", 10), ("v", 20)):
        recorder = Recorder("copier", events.append)
        _write(recorder, transaction, [(first, 10)], first)
        recorder.invoke(End(transaction, Ending.COMMIT))
    _read_all(Recorder("reader", events.append), [(0, 0, 10)], end=11)

    assert judge(events).is_clean, str(judge(events))


def test_an_offset_of_a_transaction_whose_commit_was_refused_is_found() -> None:
    recorder, events = _recorder()
    recorder.ok(recorder.invoke(Stage("g", [("in", 0, 5)], "t")))
    recorder.fail(recorder.invoke(End("t", Ending.COMMIT)))
    recorder.ok(recorder.invoke(Fetch("g")), Fetched([("in", 0, 5)]))

    assert set(judge(events).anomalies) == {Anomaly.ABORTED_READ}


def test_a_plan_that_ends_within_a_transaction_of_one_partition_is_torn() -> None:
    recorder, events = _recorder()
    _write(recorder, "t", [(0, 10)], 0)
    recorder.ok(recorder.invoke(End("t", Ending.COMMIT)))
    for piece in (Piece("out", 0, 0, 5, [(0, 0, 5)]), Piece("out", 0, 5, 11, [(5, 5, 5)])):
        recorder.ok(recorder.invoke(Poll("r")), Polled([piece], is_whole=True))

    assert set(judge(events).anomalies) == {Anomaly.TORN_TRANSACTION}


def test_plans_go_back_only_behind_one_that_was_over_before_they_began() -> None:
    recorder, events = _recorder()
    slow, quick = recorder.invoke(Plan()), recorder.invoke(Plan())
    recorder.ok(quick, Planned([("out", 0, 10)]))
    recorder.ok(slow, Planned([("out", 0, 5)]))
    assert judge(events).is_clean, str(judge(events))

    recorder.ok(recorder.invoke(Plan()), Planned([("out", 0, 9)]))
    assert judge(events).anomalies == {Anomaly.LSO_REGRESS: 1}


def test_a_retry_may_write_the_same_records_again() -> None:
    recorder, events = _recorder()
    for transaction, ending, offset in (("t1", Ending.ABORT, 0), ("t2", Ending.COMMIT, 11)):
        _write(recorder, transaction, [(0, 10)], offset)
        recorder.ok(recorder.invoke(End(transaction, ending)))
    _read_all(recorder, [(11, 0, 10)], end=22)
    assert judge(events).is_clean, str(judge(events))

    recorder, events = _recorder()
    for transaction, ending, offset in (("t1", Ending.ABORT, 0), ("t2", Ending.COMMIT, 11)):
        _write(recorder, transaction, [(0, 10)], offset)
        recorder.ok(recorder.invoke(End(transaction, ending)))
    _read_all(recorder, [(0, 0, 10)], end=22)
    assert Anomaly.ABORTED_READ in judge(events).anomalies


def test_what_was_in_the_log_and_is_not_at_its_end_is_lost() -> None:
    """Whoever saw it before; but what retention may have removed is not."""
    for final, expected in (([], {Anomaly.LOST_WRITE}), ([(0, 0, 3)], set())):
        recorder, events = _recorder()
        _write(recorder, "t", [(0, 3)], 0)
        recorder.ok(recorder.invoke(End("t", Ending.COMMIT)))
        _poll(recorder, [Piece("out", 0, 0, 4, [(0, 0, 3)])])
        recorder.ok(recorder.invoke(Poll("f", is_final=True)), Polled([Piece("out", 0, 0, 3 if final else 0, final)]))

        assert set(judge(events).anomalies) == expected

    events[-1] = replace(events[-1], answer=Polled([Piece("out", 0, 3, 4)]))
    assert judge(events).is_clean


def test_records_in_another_partition_than_they_were_written_to_are_found_without_a_receipt() -> None:
    recorder, events = _recorder()
    for partition in (0, 1):
        recorder.ok(recorder.invoke(Write("out", [(partition, 1)], partition, "t", is_micro_batch=True)))
    recorder.ok(recorder.invoke(End("t", Ending.COMMIT)))
    _poll(recorder, [Piece("out", 0, 0, 1, [(0, 1, 1)]), Piece("out", 1, 0, 1, [(0, 0, 1)])])

    assert judge(events).anomalies == {Anomaly.INCONSISTENT_OFFSET: 2}


@pytest.mark.parametrize(
    ("end", "runs", "expected"),
    [
        (3, [(0, 0, 3)], set()),
        (3, [(0, 0, 1)], {Anomaly.POLL_SKIP}),
        (4, [(0, 0, 3), (3, 77, 1)], {Anomaly.FOREIGN_READ}),
        (9, [(0, 0, 3), (7, 0, 1)], {Anomaly.DUPLICATE}),
    ],
)
def test_readers_of_uncommitted_records_are_judged_too(
    end: int, runs: list[tuple[int, int, int]], expected: set[Anomaly]
) -> None:
    recorder, events = _recorder()
    _write(recorder, "t", [(0, 3)], 0)
    recorder.ok(recorder.invoke(End("t", Ending.COMMIT)))
    _read_all(recorder, [(0, 0, 3)], end=4)
    uncommitted = recorder.invoke(Poll("u", IsolationLevel.READ_UNCOMMITTED))
    recorder.ok(uncommitted, Polled([Piece("out", 0, 0, end, runs)]))

    assert set(judge(events).anomalies) == expected


def test_a_reader_of_uncommitted_records_may_find_those_of_each_try() -> None:
    recorder, events = _recorder()
    for transaction, ending, offset in (("t1", Ending.ABORT, 0), ("t2", Ending.COMMIT, 4)):
        _write(recorder, transaction, [(0, 3)], offset)
        recorder.ok(recorder.invoke(End(transaction, ending)))
    uncommitted = recorder.invoke(Poll("u", IsolationLevel.READ_UNCOMMITTED))
    recorder.ok(uncommitted, Polled([Piece("out", 0, 0, 8, [(0, 0, 3), (4, 0, 3)])]))
    _read_all(recorder, [(4, 0, 3)], end=8)

    assert judge(events).is_clean, str(judge(events))


@pytest.mark.parametrize("is_first_known", [True, False])
def test_an_offset_of_a_commit_without_an_answer_is_old_once_a_later_one_was_answered(is_first_known: bool) -> None:
    recorder, events = _recorder()
    for transaction, first, offset in (("t1", 0, 5), ("t2", 10, 10)):
        _write(recorder, transaction, [(first, 3)], first)
        recorder.ok(recorder.invoke(Stage("g", [("in", 0, offset)], transaction)))
        made = recorder.invoke(End(transaction, Ending.COMMIT))
        if transaction == "t2":
            recorder.ok(made)
        else:
            recorder.unknown(made)
            if is_first_known:
                _poll(recorder, [Piece("out", 0, 0, 3, [(0, 0, 3)])])
    recorder.ok(recorder.invoke(Fetch("g")), Fetched([("in", 0, 5)]))

    assert set(judge(events).anomalies) == ({Anomaly.GROUP_OFFSETS} if is_first_known else set())


@pytest.mark.parametrize(("found", "expected"), [(-1, set()), (5, {Anomaly.GROUP_OFFSETS})])
def test_an_offset_that_was_refused_is_not_the_groups(found: int, expected: set[Anomaly]) -> None:
    recorder, events = _recorder()
    recorder.fail(recorder.invoke(Stage("g", [("in", 0, 5)], "t")))
    recorder.ok(recorder.invoke(End("t", Ending.COMMIT)))
    recorder.ok(recorder.invoke(Fetch("g")), Fetched([("in", 0, found)]))

    assert set(judge(events).anomalies) == expected


@pytest.mark.parametrize("is_answered", [True, False])
def test_a_batch_that_was_tried_twice_is_judged_as_one(is_answered: bool) -> None:
    def tried_twice(second: list[tuple[int, int, int]], *, at_once: bool) -> set[Anomaly]:
        recorder, events = _recorder()
        for attempt in ("batch/1", "batch/2"):
            for partition in (0, 1):
                runs = [(2 * partition, 2)]
                recorder.unknown(recorder.invoke(Write("out", runs, partition, attempt, "query", True)))
            ended = recorder.invoke(End(attempt, Ending.COMMIT))
            (recorder.ok if is_answered and attempt == "batch/2" else recorder.unknown)(ended)
        first = Piece("out", 0, 0, 2, [(0, 0, 2)])
        if at_once:
            _poll(recorder, [first, Piece("out", 1, 0, 2, second)], is_whole=True)
        else:
            _poll(recorder, [first, Piece("out", 1, 0, 0)], is_whole=True)
            _poll(recorder, [Piece("out", 1, 0, 2, second)], is_whole=True)
        last = [first, Piece("out", 1, 0, 2, second)]
        recorder.ok(recorder.invoke(Poll("final", is_final=True)), Polled(last))
        return set(judge(events).anomalies)

    assert tried_twice([(0, 2, 2)], at_once=True) == set()
    assert tried_twice([(0, 2, 2)], at_once=False) == {Anomaly.HALF_BATCH}
    assert Anomaly.HALF_BATCH in tried_twice([], at_once=True)
    assert tried_twice([(0, 3, 1), (1, 2, 1)], at_once=True) == {Anomaly.ORDER}


def test_a_receipt_is_held_against_the_log_though_the_commit_was_not_answered() -> None:
    recorder, events = _recorder()
    _write(recorder, "t", [(0, 1)], 5)
    recorder.unknown(recorder.invoke(End("t", Ending.COMMIT)))
    _read_all(recorder, [(7, 0, 1)], end=8)

    assert set(judge(events).anomalies) == {Anomaly.INCONSISTENT_OFFSET}


def test_interleaved_writes_of_transactions_are_allowed() -> None:
    """G0. conformance: 66."""
    log = ModelLog()
    first, second = log.begin(), log.begin()
    for _ in range(3):
        log.write("a", first, 0, 2)
        log.write("b", second, 0, 2)
    log.finish([first, second])

    assert judge(log.events).is_clean


def test_what_retention_removed_is_not_called_lost() -> None:
    log = ModelLog()
    owner = log.begin()
    log.write("copier", owner, 0, 10)
    log.commit("copier", owner)
    late = Reader("final", is_final=True)
    late.positions[0] = 5
    log.poll(late)

    assert judge(log.events).is_clean


def test_no_record_is_judged_lost_without_a_final_reader() -> None:
    log = ModelLog()
    owner = log.begin()
    log.write("copier", owner, 0, 10, is_told=False)
    log.commit("copier", owner)
    assert judge(log.events).is_clean

    log.poll(Reader("final", is_final=True))
    gone = [_without_partition(event, 0) for event in log.events]
    assert set(judge(gone).anomalies) == {Anomaly.LOST_WRITE}


def test_a_call_that_nobody_made_cannot_be_completed() -> None:
    with pytest.raises(UsageError, match="completed"):
        judge([Event("a", 1, Kind.OK, 0)])


def test_numbers_and_offsets_out_of_range_are_refused() -> None:
    for runs, offset in (([(2**48, 1)], 0), ([(-1, 1)], 0), ([(0, 1)], 2**48)):
        recorder, events = _recorder()
        _write(recorder, "t", runs, offset)
        with pytest.raises(UsageError, match="out of range"):
            judge(events)
    recorder, events = _recorder()
    _read_all(recorder, [(-1, 0, 1)], end=1)
    with pytest.raises(UsageError, match="out of range"):
        judge(events)


@pytest.mark.slow
def test_hundreds_of_thousands_of_runs_are_judged_by_columns() -> None:
    """A naive walk over pairs of runs would not come to an end."""
    recorder, events = _recorder()
    count = 20_000
    runs = [(2 * at, 1) for at in range(count)]
    _write(recorder, "t", runs, 0)
    recorder.ok(recorder.invoke(End("t", Ending.COMMIT)))
    for reader in range(9):
        _read_all(recorder, [(at, 2 * at, 1) for at in range(count)], end=count + 1, reader=f"r{reader}")

    report = judge(events)
    assert report.is_clean
    assert report.counts["records read"] == 9 * count


def test_runs_stand_for_any_number_of_records() -> None:
    recorder, events = _recorder()
    count = 10**12
    _write(recorder, "t", [(0, count)], 0)
    recorder.ok(recorder.invoke(End("t", Ending.COMMIT)))
    step = count // 10
    for at in range(10):
        made = recorder.invoke(Poll("r", is_final=True))
        recorder.ok(made, Polled([Piece("out", 0, at * step, (at + 1) * step, [(at * step, at * step, step)])]))
    assert judge(events).is_clean

    del events[-2:]
    report = judge(events)
    assert set(report.anomalies) == {Anomaly.LOST_WRITE, Anomaly.TORN_TRANSACTION}
    assert report.findings[0].records == step


def test_the_command_line_tells_clean_histories_from_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = random_history(1)
    files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for number, path in enumerate(files):
        with writing(path) as keep:
            for event in events:
                if (event.process in {"copier", "reader", "final"}) == (number == 1):
                    keep(event)
    assert main([str(path) for path in files]) == CLEAN
    assert "no anomalies" in capsys.readouterr().out

    plant, _ = PLANTS["duplicate"]
    with writing(tmp_path / "bad.jsonl") as keep:
        for event in plant(events, random.Random(1)) or []:
            keep(event)
    assert main(["--json", str(tmp_path / "bad.jsonl")]) == ANOMALIES
    assert json.loads(capsys.readouterr().out)["anomalies"]["duplicate"] == 1

    (tmp_path / "empty").touch()
    assert main([str(tmp_path / "empty")]) == UNREADABLE
    assert main([str(tmp_path / "missing")]) == UNREADABLE


def _recorder() -> tuple[Recorder, list[Event]]:
    events: list[Event] = []
    times = iter(np.arange(10**6).tolist())
    return Recorder("p", events.append, now_ns=lambda: next(times)), events


def _write(recorder: Recorder, transaction: str, runs: list[tuple[int, int]], offset: int) -> None:
    recorder.ok(recorder.invoke(Write("out", runs, 0, transaction)), Written(offset))


def _poll(recorder: Recorder, pieces: list[Piece], *, is_whole: bool = False) -> None:
    recorder.ok(recorder.invoke(Poll("r")), Polled(pieces, is_whole=is_whole))


def _read_all(recorder: Recorder, runs: list[tuple[int, int, int]], *, end: int, reader: str = "r") -> None:
    made = recorder.invoke(Poll(reader, is_final=True))
    recorder.ok(made, Polled([Piece("out", 0, 0, end, runs)], is_whole=True))


def _without_partition(event: Event, partition: int) -> Event:
    """As a log shows it that has nothing in one partition."""
    if not isinstance(event.answer, Polled):
        return event
    pieces = [
        Piece(p.topic, p.partition, p.start, p.end) if p.partition == partition else p for p in event.answer.pieces
    ]
    return Event(event.process, event.number, event.kind, event.time_ns, answer=Polled(pieces))
