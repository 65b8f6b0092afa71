"""Ids of participants, the look at them before the decision, and whom to fence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncelog_kafka.protocol.participants import (
    Instant,
    Moment,
    Participant,
    ParticipantId,
    Transaction,
    by_time_left,
    check_age_ms,
    find_losers,
    find_old,
    find_unprepared,
    margin_ms,
    of_prefix,
)

MINUTE_MS = 60_000
TIMEOUT_MS = 15 * MINUTE_MS


def participant(name: str = "copier-0-1.0.0", partition: int = 0) -> Participant:
    return Participant(name, partition, 7, 3, 2, 10, 0, "out")


def transaction(name: str = "copier-0-1.0.0", *, started_ms: int = 0) -> Transaction:
    return Transaction(name, "Ongoing", 7, 3, TIMEOUT_MS, started_ms)


JUST_BEGUN = Moment(now_ms=1_000, job_ms=1_000)


@pytest.mark.parametrize("prefix", ["copier", "a-1-2.0.0", "with-dash", "copier-1.b", "ü/ü"])
def test_an_id_is_read_as_it_was_written(prefix: str) -> None:
    name = ParticipantId(prefix, 12, 345, 6, 7)

    assert ParticipantId.parse(str(name)) == name


@pytest.mark.parametrize("text", ["copier", "copier-0", "copier-0-1", "copier-0-1.0", "-0-1.0.0", "copier-x-1.0.0"])
def test_what_is_no_id_of_a_participant_is_read_as_none(text: str) -> None:
    assert ParticipantId.parse(text) is None


# Before the decision


def test_participants_that_are_open_and_ours_and_have_time_left_may_be_decided() -> None:
    assert find_unprepared([participant()], {"copier-0-1.0.0": transaction()}, JUST_BEGUN) == {}


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (None, "does not know"),
        (replace(transaction(), epoch=4), "another producer"),
        (replace(transaction(), producer_id=8), "another producer"),
        (replace(transaction(), state="PrepareAbort"), "it is PrepareAbort"),
        (replace(transaction(), state="CompleteAbort"), "it is CompleteAbort"),
        (replace(transaction(), state="CompleteCommit"), "it is CompleteCommit"),
        (replace(transaction(), state="Empty"), "it is Empty"),
    ],
)
def test_a_participant_that_is_not_open_or_not_ours_is_named_with_the_reason(
    found: Transaction | None, reason: str
) -> None:
    known = {} if found is None else {found.transactional_id: found}

    problems = find_unprepared([participant()], known, JUST_BEGUN)

    assert list(problems) == ["copier-0-1.0.0"]
    assert reason in problems["copier-0-1.0.0"]


def test_two_minutes_must_be_left_by_either_clock() -> None:
    open_one = {"copier-0-1.0.0": transaction(started_ms=0)}

    def is_ready(now_ms: int, job_ms: int) -> bool:
        return not find_unprepared([participant()], open_one, Moment(now_ms, job_ms))

    assert is_ready(now_ms=13 * MINUTE_MS, job_ms=14 * MINUTE_MS)
    assert not is_ready(now_ms=13 * MINUTE_MS + 1, job_ms=14 * MINUTE_MS)
    # A broker whose clock is hours behind makes a young transaction look old: the job's age says better.
    assert is_ready(now_ms=500 * MINUTE_MS, job_ms=13 * MINUTE_MS)
    assert not is_ready(now_ms=500 * MINUTE_MS, job_ms=13 * MINUTE_MS + 1)


@pytest.mark.parametrize(("timeout_ms", "margin"), [(900_000, 120_000), (480_000, 120_000), (60_000, 15_000)])
def test_a_short_time_out_has_a_margin_of_a_quarter(timeout_ms: int, margin: int) -> None:
    assert margin_ms(timeout_ms) == margin


@pytest.mark.parametrize(("timeout_ms", "most"), [(900_000, 10_000), (160_000, 10_000), (60_000, 7_500), (4, 0)])
def test_a_look_is_believed_for_ten_seconds_or_half_of_a_short_margin(timeout_ms: int, most: int) -> None:
    assert check_age_ms(timeout_ms) == most


def test_of_two_clocks_the_one_that_says_more_is_believed() -> None:
    """The wall's clock is set back; the other stands still while its machine is suspended."""
    earlier = Instant(wall_ms=10_000, running_ms=500)

    assert Instant(wall_ms=13_000, running_ms=500).since_ms(earlier) == 3_000
    assert Instant(wall_ms=1_000, running_ms=2_500).since_ms(earlier) == 2_000


def test_what_times_out_first_is_ended_first() -> None:
    names = ["copier-0-1.0.0", "copier-1-1.0.0", "copier-2-1.0.0"]
    started = dict(zip(names, (30, 10, 20), strict=True))
    found = {name: transaction(name, started_ms=at) for name, at in started.items()}

    ordered = by_time_left([participant(name) for name in names], found)

    assert [one.transactional_id for one in ordered] == sorted(names, key=started.__getitem__)


# Fencing


def test_losers_are_open_ones_of_this_lease_or_older_that_did_not_win() -> None:
    found = [
        ("copier-0-5.0.0", "Ongoing"),  # lost to the next
        ("copier-0-5.0.1", "Ongoing"),  # the winner
        ("copier-0-4.0.0", "Ongoing"),  # a zombie of an older lease
        ("copier-0-6.0.0", "Ongoing"),  # a newer driver's
        ("copier-1-5.0.0", "CompleteCommit"),
        ("copier.b-0-5.0.0", "Ongoing"),
        ("other", "Ongoing"),
    ]

    losers = find_losers("copier", 5, [participant("copier-0-5.0.1")], found)

    assert losers == ["copier-0-5.0.0", "copier-0-4.0.0"]


def test_a_lease_begins_by_fencing_what_is_open_and_all_of_the_lease_before() -> None:
    found = [
        ("copier-0-2.0.0", "CompleteCommit"),  # was fenced when lease 4 began
        ("copier-1-2.0.0", "Ongoing"),
        ("copier-0-4.0.0", "CompleteCommit"),  # its driver may be alive
        ("copier-1-4.0.0", "Empty"),
        ("copier-0-9.0.0", "Ongoing"),  # the new lease itself
        ("copier-0-10.0.0", "Ongoing"),
        ("copier-x-4.0.0", "Ongoing"),
    ]

    assert find_old("copier", 9, found) == ["copier-1-2.0.0", "copier-0-4.0.0", "copier-1-4.0.0"]


def test_ids_belong_to_a_prefix_by_what_they_say_and_not_by_how_they_begin() -> None:
    found = [
        ("copier-0-1.0.0", "Empty"),
        ("copier-2-0-1.0.0", "Empty"),
        ("copier.b-0-1.0.0", "Empty"),
        ("copier", "Empty"),
    ]

    assert of_prefix("copier", found) == [("copier-0-1.0.0", "Empty")]


@pytest.mark.parametrize("state", ["PrepareAbort", "CompleteAbort"])
def test_a_transaction_that_the_brokers_aborted_is_not_said_to_be_another_producers(state: str) -> None:
    """They raise the epoch when they abort, for instance after a time-out of some milliseconds."""
    aborted = replace(transaction(), epoch=4, state=state, timeout_ms=10)

    problems = find_unprepared([participant()], {"copier-0-1.0.0": aborted}, JUST_BEGUN)

    assert problems == {"copier-0-1.0.0": f"it was aborted, by an operator or after its time-out of 10 ms ({state})"}


def test_a_driver_whose_clock_is_behind_the_brokers_sees_it_by_the_newest_transaction() -> None:
    """Otherwise the first one would seem to have 14 of its 15 minutes left, when it has 30 seconds."""
    first, last = transaction(), transaction("copier-1-1.0.0", started_ms=14 * MINUTE_MS + MINUTE_MS // 2)
    behind = Moment(now_ms=MINUTE_MS, job_ms=14 * MINUTE_MS + MINUTE_MS // 2)
    found = {one.transactional_id: one for one in (first, last)}

    problems = find_unprepared([participant(), participant("copier-1-1.0.0", 1)], found, behind)

    assert problems == {"copier-0-1.0.0": "it times out in 30000 ms"}
