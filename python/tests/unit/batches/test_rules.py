"""The ledger's verdict on a batch: its decision table, all combinations of the table's conditions, histories."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.batches.rules import (
    REMEMBERED_RUNS,
    AlreadyDecided,
    BatchRequest,
    LastBatch,
    NewRound,
    QueryLedger,
    check_run,
    decided,
    former_names,
    goes_on,
    plan_batch,
)
from oncelog.errors import BatchRefusedError, RunSupersededError

LAST = LastBatch(batch_id=5, fingerprint="f5", round=8, run_id="run-2", call_id="call-1")
LEDGER = QueryLedger(
    query_id="query", sink_name="sink", run_id="run-2", superseded_runs=("run-1",), current_round=9, last=LAST
)
"""Batch 5 was decided in round 8; round 9 is an attempt at batch 6. Run 2 is live."""

NEXT = BatchRequest(
    prefix="copier",
    query_id="query",
    sink_name="sink",
    run_id="run-3",
    batch_id=6,
    fingerprint="f6",
    group_id="g",
    call_id="call-2",
)
"""A restart of the query asks for the batch after the last decided one."""

REPLAY = replace(NEXT, batch_id=5, fingerprint="f5")

RESTARTED = replace(LEDGER, run_id="run-3", superseded_runs=("run-1", "run-2"), group_id="g")
"""The ledger once run 3 was heard of."""

REPLAYED = replace(RESTARTED, last=replace(LAST, call_id="call-2"))
"""The ledger once run 3 has found batch 5 decided."""


# The table ------------------------------------------------------------------------------------------------------------


def test_the_first_batch_of_a_prefix_gets_the_first_round_whatever_its_id() -> None:
    for batch_id in (0, 17):
        verdict = plan_batch(None, replace(NEXT, batch_id=batch_id))

        fresh = QueryLedger("query", "sink", "run-3", current_round=1, group_id="g")
        assert verdict == NewRound(fresh, number=1, previous=None)


@pytest.mark.parametrize("batch_id", [6, 9], ids=["the next batch", "a later batch"])
def test_a_batch_after_the_last_one_gets_a_round_and_the_round_before_is_named(batch_id: int) -> None:
    """The previous round, if it is still open, is aborted in the same step. conformance: 53."""
    verdict = plan_batch(LEDGER, replace(NEXT, batch_id=batch_id))

    assert verdict == NewRound(replace(RESTARTED, current_round=10), number=10, previous=9)


def test_before_any_decision_every_batch_gets_a_round() -> None:
    """conformance: 53."""
    verdict = plan_batch(replace(LEDGER, last=None), replace(NEXT, batch_id=0))

    assert verdict == NewRound(replace(RESTARTED, last=None, current_round=10), number=10, previous=9)


def test_a_replay_of_the_last_batch_after_a_restart_is_in_the_log_already() -> None:
    """The step still supersedes the older run. conformance: 52."""
    assert plan_batch(LEDGER, REPLAY) == AlreadyDecided(REPLAYED, round=8)
    assert plan_batch(REPLAYED, REPLAY) == AlreadyDecided(REPLAYED, round=8), "also when the step is run again"


def test_the_call_that_decided_a_batch_may_run_its_steps_again() -> None:
    replay = replace(REPLAY, run_id="run-2", call_id="call-1", group_id=None)

    assert plan_batch(LEDGER, replay) == AlreadyDecided(LEDGER, round=8)


REFUSED = [
    ("other offsets under the id of the last batch", LEDGER, replace(REPLAY, fingerprint="other"), "offsets"),
    ("an older batch", LEDGER, replace(NEXT, batch_id=4, fingerprint="f4"), "later batch"),
    ("the same batch twice in one run", LEDGER, replace(REPLAY, run_id="run-2"), "two sinks"),
    ("the same batch twice in a run that replays it", REPLAYED, replace(REPLAY, call_id="call-3"), "called twice"),
    (
        "the same batch twice in a run, in a ledger of an older oncelog",
        replace(LEDGER, last=replace(LAST, call_id=None)),
        replace(REPLAY, run_id="run-2"),
        "two sinks",
    ),
    (
        "the batch before in a run that has begun the next one",
        replace(LEDGER, last=replace(LAST, run_id="run-1")),
        replace(REPLAY, run_id="run-2"),
        "called twice",
    ),
    ("another query", LEDGER, replace(NEXT, query_id="other"), "takeover=<query id>"),
    (
        "another query that takes a third one over",
        LEDGER,
        replace(NEXT, query_id="other", takeover="third"),
        "takeover",
    ),
    ("another sink of the query", LEDGER, replace(NEXT, sink_name="other", run_id="run-2"), "another sink"),
    ("a sink with another topic", LEDGER, replace(NEXT, sink_name="other"), "topic of this sink changed"),
    ("one that repeats the last batch", LEDGER, replace(REPLAY, sink_name="other"), "topic of this sink changed"),
]


@pytest.mark.parametrize(("ledger", "request_", "says"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_what_contradicts_the_history_is_refused_with_its_remedy(
    ledger: QueryLedger, request_: BatchRequest, says: str
) -> None:
    """conformance: 58, 62."""
    with pytest.raises(BatchRefusedError, match=says) as refused:
        plan_batch(ledger, request_)

    assert refused.value.fields["prefix"] == "copier"


def test_a_superseded_run_is_told_so_whatever_it_asks_for() -> None:
    """conformance: 62."""
    for request in (NEXT, REPLAY, replace(NEXT, query_id="other"), replace(NEXT, sink_name="other")):
        with pytest.raises(RunSupersededError) as stopped:
            plan_batch(LEDGER, replace(request, run_id="run-1"))
        assert stopped.value.fields == {"prefix": "copier", "run_id": "run-1", "newer_run_id": "run-2"}


def test_the_live_run_goes_on_without_a_word() -> None:
    check_run(LEDGER, "run-2", "copier")
    verdict = plan_batch(LEDGER, replace(NEXT, run_id="run-2"))

    assert verdict == NewRound(replace(LEDGER, current_round=10, group_id="g"), number=10, previous=9)


def test_a_takeover_continues_the_rounds_but_not_the_batches() -> None:
    """The new query counts its batches from 0; the old one is superseded and refused. conformance: 62."""
    heir = replace(NEXT, query_id="heir", sink_name="its sink", batch_id=0, fingerprint="h0", takeover="query")

    taken = plan_batch(LEDGER, heir)

    owned = replace(RESTARTED, query_id="heir", sink_name="its sink", last=None, current_round=10)
    assert taken == NewRound(owned, number=10, previous=9)
    with pytest.raises(RunSupersededError):
        plan_batch(owned, replace(NEXT, run_id="run-2"))
    with pytest.raises(BatchRefusedError):
        plan_batch(owned, replace(NEXT, run_id="run-4"))


def test_a_takeover_happens_once_and_then_the_option_says_nothing_more() -> None:
    heir = replace(NEXT, query_id="heir", batch_id=0, fingerprint="h0", takeover="query")
    owned = decided(plan_batch(LEDGER, heir).ledger, heir, 10)

    assert isinstance(plan_batch(owned, replace(heir, run_id="run-4")), AlreadyDecided)


ELSEWHERE = replace(LEDGER, run_id="run-b", superseded_runs=("run-a",), current_round=3, last=replace(LAST, round=3))
"""A ledger of the same query, of which no run is known under the prefix; batch 5 was decided there."""

AT_FIVE = replace(NEXT, batch_id=5, fingerprint="f5")

OPENED = QueryLedger("query", "sink", "run-3", current_round=1)
"""The ledger of a new prefix."""

NO_FORMER_NAMES = [
    ("another query", replace(ELSEWHERE, query_id="other")),
    ("a sink that was asked in this run", replace(ELSEWHERE, run_id="run-3")),
    ("a sink that an earlier run asked beside this one", replace(ELSEWHERE, superseded_runs=("run-2",))),
]


def test_a_batch_that_was_decided_under_another_name_is_refused_with_every_such_name() -> None:
    """conformance: 57, 58."""
    with pytest.raises(BatchRefusedError, match="start the query once with its former") as refused:
        former_names(OPENED, AT_FIVE, {"b": ELSEWHERE, "a": ELSEWHERE, "c": replace(ELSEWHERE, last=None)})

    assert refused.value.fields["former_prefixes"] == ["a", "b"]


@pytest.mark.parametrize("other", [row[1] for row in NO_FORMER_NAMES], ids=[row[0] for row in NO_FORMER_NAMES])
def test_a_ledger_that_is_no_former_name_is_left_alone(other: QueryLedger) -> None:
    """conformance: 62."""
    planned = replace(OPENED, superseded_runs=("run-2",))

    assert former_names(planned, AT_FIVE, {"other": other}) == {}


@pytest.mark.parametrize("current_round", [3, 4])
def test_the_run_of_a_former_name_is_superseded_once_between_two_batches_too(current_round: int) -> None:
    """conformance: 57, 62."""
    other = replace(ELSEWHERE, current_round=current_round, last=replace(LAST, batch_id=4, round=3))
    (superseded,) = former_names(OPENED, AT_FIVE, {"other": other}).values()

    assert superseded == replace(other, superseded_runs=("run-a", "run-b"))
    assert former_names(OPENED, AT_FIVE, {"other": superseded}) == {}
    asked_again = replace(AT_FIVE, run_id="run-4")
    assert plan_batch(superseded, asked_again).ledger.superseded_runs == ("run-a", "run-b")


GOING_ON = replace(RESTARTED, current_round=8)
"""Run 3 found batch 5 decided, and nothing was begun since."""


def test_a_run_that_has_the_ledger_goes_on_with_the_batch_after_the_last_one() -> None:
    assert goes_on(GOING_ON, NEXT)


@pytest.mark.parametrize(
    ("ledger", "request_"),
    [
        (replace(GOING_ON, current_round=9), NEXT),
        (replace(GOING_ON, last=None), NEXT),
        (GOING_ON, REPLAY),
        (GOING_ON, replace(NEXT, run_id="run-2")),
        (GOING_ON, replace(NEXT, query_id="heir", takeover="query")),
        (GOING_ON, replace(NEXT, sink_name="another")),
        (GOING_ON, replace(NEXT, group_id=None)),
        (replace(GOING_ON, superseded_runs=("run-3",)), NEXT),
    ],
    ids=["a round was opened", "none", "a replay", "another run", "heir", "another sink", "no group", "superseded"],
)
def test_everything_else_is_planned(ledger: QueryLedger, request_: BatchRequest) -> None:
    assert not goes_on(ledger, request_)


def test_a_decision_remembers_the_batch_its_round_and_its_run() -> None:
    after = decided(RESTARTED, NEXT, 10)

    assert after == replace(RESTARTED, last=LastBatch(6, "f6", 10, "run-3", "call-2"))


def test_a_ledger_remembers_a_bounded_number_of_superseded_runs_and_the_newest_ones() -> None:
    ledger = plan_batch(None, replace(NEXT, run_id="0")).ledger
    for run in range(1, REMEMBERED_RUNS + 3):
        ledger = plan_batch(ledger, replace(NEXT, run_id=str(run))).ledger

    assert len(ledger.superseded_runs) == REMEMBERED_RUNS
    assert (ledger.superseded_runs[0], ledger.superseded_runs[-1]) == ("2", str(REMEMBERED_RUNS + 1))
    with pytest.raises(RunSupersededError):
        plan_batch(ledger, replace(NEXT, run_id=str(REMEMBERED_RUNS + 1)))


# Every combination ----------------------------------------------------------------------------------------------------


Verdict = str


def expected(ledger: QueryLedger | None, request: BatchRequest) -> Verdict:
    """The table as a list: the first line that fits decides."""
    if ledger is None:
        return "new round"
    if request.run_id in ledger.superseded_runs:
        return "superseded"
    is_takeover = request.query_id != ledger.query_id and request.takeover == ledger.query_id
    if request.query_id != ledger.query_id and not is_takeover:
        return "refused"
    last = None if is_takeover else ledger.last
    if last is not None and request.sink_name != ledger.sink_name:
        return "refused"
    if last is None or request.batch_id > last.batch_id:
        return "new round"
    is_replay = (request.batch_id, request.fingerprint) == (last.batch_id, last.fingerprint)
    is_same_call = request.call_id == last.call_id
    return "already decided" if is_replay and (request.run_id != ledger.run_id or is_same_call) else "refused"


LEDGERS = [
    None,
    LEDGER,
    replace(LEDGER, last=None),
    replace(LEDGER, current_round=8),
    replace(LEDGER, last=replace(LAST, run_id="run-1")),
]
REQUESTS = [
    replace(
        NEXT,
        query_id=query,
        takeover=takeover,
        sink_name=sink,
        run_id=run,
        batch_id=batch,
        fingerprint=fingerprint,
        call_id=call,
    )
    for query, takeover, sink, run, batch, fingerprint, call in product(
        ["query", "other"],
        [None, "query", "other", "third"],
        ["sink", "another sink"],
        ["run-1", "run-2", "run-3"],
        [0, 4, 5, 6, 9],
        ["f5", "f6"],
        ["call-1", "call-2"],
    )
]


@pytest.mark.parametrize(
    "ledger", LEDGERS, ids=["no ledger", "round open", "nothing decided", "round decided", "decided by an older run"]
)
def test_every_combination_gets_the_verdict_of_the_table(ledger: QueryLedger | None) -> None:
    """conformance: 52, 53, 58, 62."""
    wrong = [
        (request, verdict, wanted)
        for request in REQUESTS
        if (verdict := verdict_on(ledger, request)) != (wanted := expected(ledger, request))
    ]

    assert wrong == []


def verdict_on(ledger: QueryLedger | None, request: BatchRequest) -> Verdict:
    """The name of the verdict; that what is stored fits to it is checked on the way."""
    try:
        verdict = plan_batch(ledger, request)
    except RunSupersededError:
        return "superseded"
    except BatchRefusedError:
        return "refused"
    stored = verdict.ledger
    assert (stored.query_id, stored.sink_name, stored.run_id) == (request.query_id, request.sink_name, request.run_id)
    assert stored.group_id == request.group_id
    assert stored.run_id not in stored.superseded_runs
    assert ledger is None or stored.run_id == ledger.run_id or stored.superseded_runs[-1] == ledger.run_id
    before = 0 if ledger is None else ledger.current_round
    if isinstance(verdict, NewRound):
        assert (verdict.number, verdict.previous) == (before + 1, before or None)
        assert stored.current_round == verdict.number
        return "new round"
    assert ledger is not None
    assert ledger.last is not None
    assert stored.last == replace(ledger.last, call_id=request.call_id)
    assert (stored.current_round, verdict.round) == (before, ledger.last.round)
    return "already decided"


# Histories ------------------------------------------------------------------------------------------------------------


@dataclass
class Driver:
    """One run of the query; `round` is the one it writes its batch in, `is_done` that the batch is in the log."""

    run_id: str
    batch_id: int
    round: int | None = None
    is_done: bool = False

    @property
    def request(self) -> BatchRequest:
        return replace(NEXT, run_id=self.run_id, batch_id=self.batch_id, fingerprint=f"f{self.batch_id}")


class Query:
    """A query that is restarted again and again while its older drivers live on; the ledger's fence is all they share.

    `checkpoint` is the first batch that Spark does not know to be done.
    """

    def __init__(self) -> None:
        self.ledger: QueryLedger | None = None
        self.open_round: int | None = None
        self.written: list[int] = []
        self.checkpoint = 0
        self.drivers: list[Driver] = []
        self.restart()

    def restart(self) -> Driver:
        self.drivers.append(Driver(f"run-{len(self.drivers)}", self.checkpoint))
        return self.drivers[-1]

    def go_on(self, driver: Driver) -> None:
        """The driver's next step: plan a batch, decide it, tell the checkpoint."""
        if driver.is_done:
            self.checkpoint = max(self.checkpoint, driver.batch_id + 1)
            driver.batch_id, driver.round, driver.is_done = driver.batch_id + 1, None, False
        elif driver.round is None:
            self._plan(driver)
        else:
            self._decide(driver, driver.round)

    def _plan(self, driver: Driver) -> None:
        verdict = plan_batch(self.ledger, driver.request)
        self.ledger = verdict.ledger
        if isinstance(verdict, AlreadyDecided):
            driver.is_done = True
        else:
            self.open_round = driver.round = verdict.number

    def _decide(self, driver: Driver, number: int) -> None:
        """Like every step of a round: only while its run is live, and the round the newest and open."""
        assert self.ledger is not None
        check_run(self.ledger, driver.run_id, "copier")
        if number == self.open_round == self.ledger.current_round:
            self.ledger = decided(self.ledger, driver.request, number)
            self.open_round = None
            self.written.append(driver.batch_id)
            driver.is_done = True
        else:
            driver.round = None  # aborted: the batch is run again


steps = st.tuples(st.sampled_from(["go on"] * 5 + ["restart"]), st.integers(0, 3))


@given(st.lists(steps, max_size=40))
def test_over_restarts_and_zombies_every_batch_is_written_once_and_the_newest_driver_goes_on(
    history: list[tuple[str, int]],
) -> None:
    """conformance: 52, 53, 62."""
    query = Query()
    for step, back in history:
        if step == "restart":
            query.restart()
        else:
            try_to_go_on(query, query.drivers[-1 - back % len(query.drivers)])
        assert query.written == list(range(len(query.written)))

    newest, goal = query.restart(), len(query.written) + 2
    for _ in range(4 * 3):  # at most three steps for each of them, and three for a batch that is in the log already
        query.go_on(newest)
    assert len(query.written) > goal
    assert query.written == list(range(len(query.written)))


@given(st.lists(steps, max_size=40), st.integers(1, 5))
def test_after_an_older_checkpoint_was_restored_nothing_is_written_twice(
    history: list[tuple[str, int]], lost: int
) -> None:
    """conformance: 58."""
    query = Query()
    for at, (step, back) in enumerate(history):
        if at == len(history) // 2:
            query.checkpoint = max(0, query.checkpoint - lost)
        if step == "restart":
            query.restart()
        else:
            try_to_go_on(query, query.drivers[-1 - back % len(query.drivers)])
        assert query.written == list(range(len(query.written)))


def try_to_go_on(query: Query, driver: Driver) -> None:
    """A driver that is fenced or refused has changed nothing."""
    before = query.ledger, list(query.written)
    try:
        query.go_on(driver)
    except (RunSupersededError, BatchRefusedError):
        assert (query.ledger, query.written) == before
