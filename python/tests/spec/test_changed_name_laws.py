"""A query whose sink gets another prefix or sinkName at a restart writes no batch twice; sinks side by side do not
stand in each other's way."""

from __future__ import annotations

from contextlib import suppress
from itertools import product

import pytest

from oncelog.batches.ledger import EMBEDDED
from oncelog.batches.rules import BatchRequest
from oncelog.errors import BatchRefusedError, OncelogError, RunSupersededError
from oncelog.ports import ZnodeStore
from oncelog.runtime import Log, open_with
from oncelog.znodes.memory import MemoryZnodeStore
from tests.support.log.faulty import InterruptedStore
from tests.support.log.logs import DrivenTime, LogWorld, MemoryFiles, lso, state, values
from tests.support.log.rounds import PREFIX, Round, begin, plan_round, request, written


def write(log: Log, batch_id: int, run_id: str, prefix: str = PREFIX, value: bytes = b"row") -> bool:
    """Write a batch under a name; returns whether it was written now."""
    round_ = plan_round(log.services.new_round_services(), request(batch_id, run_id, prefix=prefix))
    if round_ is None:
        return False
    round_.write(written(log, {0: [value]}))
    round_.decide()
    return True


# One sink, whose name changes -----------------------------------------------------------------------------------------


def test_a_changed_name_right_behind_a_decided_batch_is_refused_until_the_former_one_has_noted_it(log: Log) -> None:
    """conformance: 57, 58."""
    write(log, 0, "run-1")
    write(log, 1, "run-1")
    for run_id in ("run-2", "run-3"):
        with pytest.raises(
            BatchRefusedError, match=r"former transactionalIdPrefix/sinkName.*former_prefixes=\['sink'\]"
        ):
            write(log, 1, run_id, "renamed")
    assert EMBEDDED.read(log.services.store, "renamed") is None, "what is refused leaves nothing behind"

    assert not write(log, 1, "run-4")
    assert write(log, 2, "run-5", "renamed")
    assert values(log) == [b"row"] * 3


def test_a_name_that_is_changed_back_is_refused_where_the_other_one_was_not_noted_either(log: Log) -> None:
    """conformance: 57, 58."""
    write(log, 0, "run-1")
    write(log, 1, "run-2", "renamed")
    with pytest.raises(BatchRefusedError, match=r"former_prefixes=\['renamed'\]"):
        write(log, 1, "run-3")
    assert not write(log, 1, "run-4", "renamed")
    assert write(log, 2, "run-5")

    assert values(log) == [b"row"] * 3


def test_a_changed_name_ends_the_round_of_the_former_one_in_its_first_step(world: LogWorld) -> None:
    """conformance: 56, 57."""
    log = world.log
    zombie = begin(log, 0)
    zombie.write(written(log, {0: [b"zombie"]}))
    other = begin(log, 0, "run-2", prefix="renamed")
    assert lso(log) == state(log).log_end, "nobody waits for a time-out"
    with pytest.raises(RunSupersededError):
        zombie.decide()
    with pytest.raises(RunSupersededError):
        begin(log, 0)
    other.write(written(log, {0: [b"kept"]}))
    other.decide()

    assert values(log) == [b"kept"]


def test_a_driver_of_the_former_name_that_slept_between_two_batches_writes_no_more(log: Log) -> None:
    """conformance: 57, 62."""
    write(log, 0, "run-1")
    write(log, 1, "run-2", "renamed")
    with pytest.raises(RunSupersededError):
        write(log, 1, "run-1")

    assert values(log) == [b"row"] * 2


@pytest.mark.parametrize("is_decided", [False, True])
@pytest.mark.parametrize("has_history", [False, True])
def test_a_driver_of_the_former_name_that_comes_between_reads_and_write_is_seen(
    world: LogWorld, *, is_decided: bool, has_history: bool
) -> None:
    """conformance: 57, 62."""
    log = world.log
    if has_history:
        write(log, 0, "run-1")
    opened: list[Round] = []

    def come_between() -> None:
        opened.append(begin(log, 1))
        opened[0].write(written(log, {0: [b"row"]}))
        if is_decided:
            opened[0].decide()

    store = InterruptedStore(world.store(), come_between)
    renamed = world.open(store)
    store.interrupt()
    with suppress(BatchRefusedError):
        write(renamed, 1, "run-2", "renamed")
        assert not is_decided
    if not is_decided:
        with pytest.raises(RunSupersededError):
            opened[0].decide()

    assert values(log) == [b"row"] * (1 + has_history)


BEFORE_ITS_FIRST_STEP, WITH_A_ROUND_OPEN, BEFORE_SPARKS_NOTE, BEHIND_IT = STOPS = range(4)


class Query:
    """A query of one sink; each of its runs takes one batch, as far as it gets, and may wake up later."""

    def __init__(self, store: ZnodeStore) -> None:
        time = DrivenTime()
        self.services = open_with("", "memory", store, MemoryFiles(), time).services.new_round_services()
        self.done = 0
        self.runs = 0
        self.decided: list[int] = []
        self._asleep: list[BatchRequest] = []
        self._open: list[Round] = []

    def run(self, name: str, stop: int) -> None:
        self.runs += 1
        if stop == BEFORE_ITS_FIRST_STEP:
            return
        asked = request(self.done, f"run-{self.runs}", prefix=name)
        round_ = plan_round(self.services, asked)
        self.wake()
        if round_ is not None and stop == WITH_A_ROUND_OPEN:
            self._open.append(round_)
            self._asleep.append(asked)
            return
        if round_ is not None:
            round_.decide()
            self.decided.append(self.done)
        if stop == BEHIND_IT:
            self.done += 1
        self.wake()

    def wake(self) -> None:
        """Let the runs that were left go on with their round, and with another one for the same batch."""
        for asked, round_ in zip(self._asleep, self._open, strict=True):
            for again in (False, True):
                with suppress(OncelogError):
                    going = plan_round(self.services, asked) if again else round_
                    if going is not None:
                        going.decide()
                        self.decided.append(asked.batch_id)


@pytest.mark.parametrize(
    "names",
    [
        "aaaa",
        "abab",
        *(pytest.param(names, marks=pytest.mark.slow) for names in ("abbb", "abba", "aabb", "abca", "abcd")),
    ],
)
def test_whatever_the_names_and_wherever_the_runs_stop_each_batch_is_decided_once_and_the_refusal_names_the_way_out(
    names: str,
) -> None:
    """Runs that were left wake up while later ones work. conformance: 52, 57, 58."""
    empty = MemoryZnodeStore(now_ms=lambda: 0, clock=DrivenTime(), jitter=lambda: 0.0)
    open_with("", "memory", empty, MemoryFiles(), DrivenTime())
    for stops in product(STOPS, repeat=len(names) - 1):
        query = Query(empty.fork())
        for name, stop in zip(names, (*stops, BEHIND_IT), strict=True):
            try:
                query.run(name, stop)
            except BatchRefusedError as refused:
                (former,) = refused.fields["former_prefixes"]
                query.run(former, BEHIND_IT)
                query.run(name, stop)
        assert sorted(query.decided) == list(range(len(query.decided))), stops
        assert len(query.decided) >= query.done, stops


# Sinks side by side ---------------------------------------------------------------------------------------------------


def test_sinks_of_one_function_are_not_each_others_former_names_wherever_a_run_stops(log: Log) -> None:
    """Each run gets one step further than the one before: none is refused. conformance: 52, 62."""
    names = ("first", "second", "third")
    written_now = []
    for run, stop in enumerate(range(1, len(names) + 1)):
        written_now += [(name, write(log, 0, f"run-{run}", name)) for name in names[:stop]]

    assert [name for name, is_new in written_now if is_new] == list(names)
    assert values(log) == [b"row"] * len(names)


def test_sinks_that_run_at_once_may_come_in_another_order_behind_a_restart(log: Log) -> None:
    """conformance: 62."""
    left = begin(log, 0, "run-1", prefix="second")
    write(log, 0, "run-1", "first")
    write(log, 0, "run-2", "second")
    assert not write(log, 0, "run-2", "first")
    with pytest.raises(RunSupersededError):
        left.decide()

    assert values(log) == [b"row"] * 2


def test_a_sink_that_is_left_out_of_some_batches_or_added_later_is_no_other_name(log: Log) -> None:
    """conformance: 62."""
    write(log, 0, "run-1", "even")
    assert write(log, 1, "run-2", "odd"), "the sink of the other batches"
    assert write(log, 2, "run-2", "even")
    assert not write(log, 2, "run-3", "even")
    assert write(log, 2, "run-3", "added"), "behind the sinks that there were"
    assert write(log, 3, "run-3", "odd")

    assert len(values(log)) == 5


def test_a_sink_that_is_added_before_the_others_in_the_restart_that_replays_a_batch_is_refused_for_that_start_only(
    log: Log,
) -> None:
    """It looks like the other one under a new name. conformance: 62."""
    write(log, 0, "run-1", "old")
    with pytest.raises(BatchRefusedError, match="a new sink must come after"):
        write(log, 0, "run-2", "added")
    assert not write(log, 0, "run-3", "old")
    assert write(log, 0, "run-3", "added")

    assert values(log) == [b"row"] * 2


def test_queries_do_not_look_at_each_others_names(log: Log) -> None:
    """conformance: 57, 62."""
    write(log, 0, "run-1")
    other = begin(log, 0, "run-x", prefix="other", query_id="another")
    assert write(log, 1, "run-2")
    other.decide()
