"""What a plan shows, case by case.

That it holds whatever happens meanwhile is proven in properties/test_visibility_model.py and, for a small log
exhaustively, in simulation/test_interleavings.py.
"""

from __future__ import annotations

import pytest

from oncelog.protocol.partition import IndexEntry, Marker, OwnerSpan, OwnerState, PartitionState
from oncelog.protocol.visibility import Plan, aborted_pairs, is_overtaken, is_shown, losing_pairs, outcome_of, plan
from oncelog.types import NO_SEQUENCE, Block, IsolationLevel, Outcome, ProducerIdAndEpoch

S = 100
BEFORE, AFTER = S - 1, S + 1
BLOCK = Block("data/1", 0, 10, 0, 1, 0, 0)
WINNER, LOSER = ProducerIdAndEpoch(7, 1), ProducerIdAndEpoch(8, 1)
COMMITTED, UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED


def decided(outcome: Outcome, zxid: int = BEFORE) -> OwnerState:
    return OwnerState(outcome, zxid)


OPEN, COMMIT, ABORT = decided(Outcome.OPEN), decided(Outcome.COMMIT), decided(Outcome.ABORT)


def partition(log_end: int, **spans: tuple[int, int]) -> PartitionState:
    """A partition that lists owners, each with its first and last offset."""
    return PartitionState(
        log_end=log_end, owners=tuple(OwnerSpan(name, first, last, (WINNER,)) for name, (first, last) in spans.items())
    )


def planned(partitions: dict[str, PartitionState], **owners: OwnerState) -> Plan[str]:
    return plan(S, partitions, owners)


# The plan -------------------------------------------------------------------------------------------------------------


def test_where_no_transaction_is_listed_everything_is_stable() -> None:
    assert planned({"p": partition(10), "q": partition(0)}).ends == {"p": 10, "q": 0}


def test_a_partition_ends_where_its_first_undecided_transaction_begins() -> None:
    """Later data waits, also when it is decided, and also in the order of listing. conformance: 27, 37."""
    state = partition(10, late=(5, 5), early=(3, 6), done=(7, 8))

    result = planned({"p": state}, late=OPEN, early=OPEN, done=COMMIT)

    assert (result.ends, result.blockers) == ({"p": 3}, {"p": "early"})
    assert result.visible == frozenset()


def test_decided_transactions_hold_nothing_back() -> None:
    """conformance: 27, 36."""
    result = planned({"p": partition(9, kept=(0, 4), dropped=(2, 6))}, kept=COMMIT, dropped=ABORT)

    assert (result.ends, result.visible, result.gone) == ({"p": 9}, {"kept"}, {"dropped"})
    assert result.blockers == {}


def test_an_open_transaction_holds_back_its_own_partitions_only() -> None:
    """conformance: 55."""
    result = planned({"p": partition(9, prepared=(4, 5)), "q": partition(7, other=(2, 3))}, prepared=OPEN, other=COMMIT)

    assert result.ends == {"p": 4, "q": 7}


def test_a_transaction_held_back_in_one_partition_is_held_back_in_all() -> None:
    """conformance: 27."""
    p, q = partition(9, foreign=(2, 2), spanning=(4, 5)), partition(6, spanning=(1, 3))

    result = planned({"p": p, "q": q}, foreign=OPEN, spanning=COMMIT)

    assert result.ends == {"p": 2, "q": 1}
    assert result.blockers == {"p": "foreign", "q": "spanning"}
    assert planned({"q": q}, spanning=COMMIT).ends == {"q": 6}, "planned alone, the partition shows it"


def test_one_transaction_held_back_may_hold_back_the_next() -> None:
    """conformance: 27."""
    partitions = {
        "p": partition(9, open_one=(2, 2), first=(4, 4)),
        "q": partition(9, first=(3, 3), second=(5, 5)),
        "r": partition(9, second=(6, 6), third=(1, 7)),
        "s": partition(9, third=(0, 0)),
    }

    result = planned(partitions, open_one=OPEN, first=COMMIT, second=COMMIT, third=COMMIT)

    assert result.ends == {"p": 2, "q": 3, "r": 1, "s": 0}
    assert result.visible == frozenset()


@pytest.mark.parametrize(("last", "end"), [(3, 4), (5, 0)])
def test_a_transaction_is_held_back_when_its_last_record_is_not_shown(last: int, end: int) -> None:
    """conformance: 27."""
    state = partition(9, owner=(0, last), blocking=(4, 4))

    assert planned({"p": state}, owner=COMMIT, blocking=OPEN).ends == {"p": end}


@pytest.mark.parametrize(("zxid", "end"), [(BEFORE, 9), (S, 9), (AFTER, 4)])
@pytest.mark.parametrize("outcome", [Outcome.COMMIT, Outcome.ABORT])
def test_a_decision_counts_up_to_the_snapshot_and_including_it(outcome: Outcome, zxid: int, end: int) -> None:
    assert planned({"p": partition(9, owner=(4, 5))}, owner=decided(outcome, zxid)).ends == {"p": end}


@pytest.mark.parametrize("zxid", [BEFORE, S, AFTER])
def test_an_open_owner_is_undecided_whenever_it_was_written_last(zxid: int) -> None:
    assert planned({"p": partition(9, owner=(4, 5))}, owner=decided(Outcome.OPEN, zxid)).ends == {"p": 4}


@pytest.mark.parametrize(("trims", "overtaken"), [((), False), ((0, S), False), ((0, AFTER), True), ((AFTER, 0), True)])
def test_a_reader_starts_over_when_a_younger_snapshot_settled_something(
    trims: tuple[int, ...], overtaken: bool
) -> None:
    assert is_overtaken(S, [PartitionState(trim=trim) for trim in trims]) is overtaken


# The rows -------------------------------------------------------------------------------------------------------------


def data(owner: str | None, producer: ProducerIdAndEpoch = WINNER) -> IndexEntry:
    return IndexEntry(0, 1, producer, 0, owner, BLOCK, None)


def marker(outcome: Outcome, *aborted: ProducerIdAndEpoch) -> IndexEntry:
    return IndexEntry(5, 1, WINNER, NO_SEQUENCE, "owner", None, Marker(outcome, 0, aborted))


@pytest.mark.parametrize("isolation", IsolationLevel)
@pytest.mark.parametrize("outcome", [Outcome.COMMIT, Outcome.ABORT])
def test_a_control_marker_is_never_shown(isolation: IsolationLevel, outcome: Outcome) -> None:
    """conformance: 42."""
    assert not is_shown(marker(outcome), isolation, {}, frozenset())


@pytest.mark.parametrize("state", [OPEN, COMMIT, ABORT])
def test_read_uncommitted_shows_all_data(state: OwnerState) -> None:
    """conformance: 42."""
    assert is_shown(data("owner"), UNCOMMITTED, {"owner": state}, frozenset({WINNER}))


def test_data_outside_any_transaction_is_shown() -> None:
    assert is_shown(data(None), COMMITTED, {}, frozenset())


@pytest.mark.parametrize(("state", "shown"), [(OPEN, False), (COMMIT, True), (ABORT, False)])
def test_while_its_owner_is_listed_the_owner_says_what_becomes_of_data(state: OwnerState, shown: bool) -> None:
    """conformance: 37."""
    assert is_shown(data("owner"), COMMITTED, {"owner": state}, frozenset()) is shown


def test_once_its_owner_is_settled_the_markers_say_what_becomes_of_data() -> None:
    """The next transaction of the same producer has an epoch of its own. conformance: 36, 38, 39."""
    aborted = aborted_pairs([data("a"), marker(Outcome.COMMIT), marker(Outcome.ABORT, LOSER), marker(Outcome.ABORT)])

    assert aborted == {LOSER}
    assert not is_shown(data("settled", LOSER), COMMITTED, {}, aborted)
    assert is_shown(data("settled", WINNER), COMMITTED, {}, aborted)
    assert is_shown(data("settled", ProducerIdAndEpoch(LOSER.producer_id, LOSER.epoch + 1)), COMMITTED, {}, aborted)


@pytest.mark.parametrize(
    ("entry", "outcome"),
    [
        (data(None), None),
        (data("listed"), Outcome.OPEN),
        (data("settled", WINNER), Outcome.COMMIT),
        (data("settled", LOSER), Outcome.ABORT),
    ],
    ids=["plain", "listed", "settled, committed", "settled, aborted"],
)
def test_what_became_of_data_is_told_by_its_owner_or_else_by_the_markers(
    entry: IndexEntry, outcome: Outcome | None
) -> None:
    assert outcome_of(entry, {"listed": OPEN}, frozenset({LOSER})) is outcome


ROUND = OwnerState(Outcome.COMMIT, BEFORE, participants=frozenset({WINNER}))


def test_a_committed_round_shows_its_participants_only() -> None:
    """conformance: 54."""
    assert is_shown(data("round", WINNER), COMMITTED, {"round": ROUND}, frozenset())
    assert not is_shown(data("round", LOSER), COMMITTED, {"round": ROUND}, frozenset())


@pytest.mark.parametrize(
    ("state", "losers"), [(COMMIT, ()), (ABORT, (WINNER, LOSER)), (ROUND, (LOSER,))], ids=["commit", "abort", "round"]
)
def test_a_marker_names_whose_data_is_dropped(state: OwnerState, losers: tuple[ProducerIdAndEpoch, ...]) -> None:
    assert losing_pairs(OwnerSpan("owner", 0, 4, (WINNER, LOSER)), state) == losers


@pytest.mark.parametrize("state", [COMMIT, ABORT, ROUND], ids=["commit", "abort", "round"])
@pytest.mark.parametrize("producer", [WINNER, LOSER])
def test_settling_changes_nothing_that_is_shown(state: OwnerState, producer: ProducerIdAndEpoch) -> None:
    entry, span = data("owner", producer), OwnerSpan("owner", 0, 4, (WINNER, LOSER))

    unsettled = is_shown(entry, COMMITTED, {"owner": state}, frozenset())
    settled = is_shown(entry, COMMITTED, {}, aborted_pairs([marker(state.outcome, *losing_pairs(span, state))]))

    assert unsettled is settled


# The list of owners ---------------------------------------------------------------------------------------------------


def test_a_partition_lists_an_owner_once_from_its_first_to_its_last_offset() -> None:
    state = (
        PartitionState().extended_by("a", WINNER, 0, 2).extended_by("b", WINNER, 3, 3).extended_by("a", WINNER, 4, 4)
    )

    assert state.owners == (OwnerSpan("a", 0, 4, (WINNER,)), OwnerSpan("b", 3, 3, (WINNER,)))
    assert state.extended_by("b", LOSER, 5, 6).span_of("b") == OwnerSpan("b", 3, 6, (WINNER, LOSER))
    assert state.span_of("c") is None
