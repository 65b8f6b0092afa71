"""What can be known of a batch after its ledger was lost: from tokens and states of ids, and never by guessing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from oncelog.errors import UsageError
from oncelog_kafka.protocol.lost_ledger import CLOCKS_DIFFER_MS, Fate, LostQuery, Traces, find
from oncelog_kafka.protocol.participants import ParticipantId
from oncelog_kafka.protocol.tokens import TokenText

BATCH = 7
PLANNED_MS = 1_000_000
WEEK_MS = 7 * 24 * 3_600_000


def query(**more: Any) -> LostQuery:
    known = {"fingerprints": {6: "f6", 7: "f7"}, "planned_ms": PLANNED_MS, "topic": "out", "is_recorded": False}
    return LostQuery("p", "q", "out", batch_id=BATCH, **{**known, **more})


def token(batch_id: int, round_: int, query_id: str = "q") -> TokenText:
    return TokenText(query_id, batch_id, round_, f"nonce-{round_}")


def traces(states: Mapping[tuple[int, int], str], tokens: Mapping[int, Sequence[TokenText]], **more: Any) -> Traces:
    """Of ids with these partitions and leases."""
    ids = {ParticipantId("p", number, lease, 0, 0): state for (number, lease), state in states.items()}
    known = {"pending": frozenset(), "kept_ms": WEEK_MS, "now_ms": PLANNED_MS + 60_000}
    return Traces(ids, tokens, **{**known, **more})


DONE, LOST, FRESH = "CompleteCommit", "CompleteAbort", "Empty"
BEFORE, OURS = token(6, 30), token(BATCH, 31)


@pytest.mark.parametrize(
    ("states", "tokens", "more", "fate"),
    [
        ({(0, 30): DONE, (1, 30): DONE}, {0: [OURS], 1: [OURS]}, {}, Fate.WRITTEN),
        ({(0, 30): DONE, (1, 30): DONE}, {0: [OURS], 1: [BEFORE]}, {}, Fate.WRITTEN),
        ({(0, 30): DONE, (1, 30): DONE, (2, 12): LOST}, {0: [OURS]}, {}, Fate.WRITTEN),
        ({(0, 31): DONE, (1, 31): LOST}, {0: [OURS]}, {}, Fate.UNKNOWN),
        ({(0, 31): DONE, (1, 31): FRESH}, {0: [OURS]}, {}, Fate.UNKNOWN),
        ({(0, 31): DONE, (1, 31): LOST, (1, 32): DONE}, {0: [OURS], 1: [OURS]}, {}, Fate.UNKNOWN),
        ({(0, 31): LOST, (1, 31): LOST}, {0: [BEFORE]}, {}, Fate.MISSING),
        ({(0, 30): LOST, (1, 30): DONE}, {0: [BEFORE], 1: [BEFORE]}, {}, Fate.MISSING),
        ({(0, 30): LOST, (1, 30): DONE}, {0: [BEFORE]}, {}, Fate.UNKNOWN),
        ({}, {}, {}, Fate.MISSING),
        ({}, {}, {"kept_ms": None}, Fate.UNKNOWN),
        ({}, {}, {"now_ms": PLANNED_MS + WEEK_MS - CLOCKS_DIFFER_MS - 1}, Fate.MISSING),
        ({}, {}, {"now_ms": PLANNED_MS + WEEK_MS - CLOCKS_DIFFER_MS}, Fate.UNKNOWN),
    ],
)
def test_a_batch_is_written_or_missing_only_if_the_brokers_prove_it(
    states: Any, tokens: Any, more: Any, fate: Fate
) -> None:
    assert find(query(), traces(states, tokens, **more)).fate is fate


def test_a_commit_may_be_of_the_batch_if_rows_name_their_topics() -> None:
    """A token of the batch may have been deleted with its topic, while one in another topic is still there."""
    found = traces({(0, 30): DONE}, {0: [BEFORE]})
    assert find(query(topic=None), found).fate is Fate.UNKNOWN
    assert find(query(), found).fate is Fate.MISSING


def test_an_absent_time_of_planning_proves_nothing() -> None:
    assert find(query(planned_ms=None), traces({}, {})).fate is Fate.UNKNOWN


def test_a_batch_that_spark_has_recorded_is_written_whatever_the_brokers_forgot() -> None:
    assert find(query(is_recorded=True), traces({}, {}, kept_ms=None)).fate is Fate.RECORDED


@pytest.mark.parametrize("is_recorded", [False, True])
@pytest.mark.parametrize(
    ("found", "problem"),
    [
        (traces({(0, 31): "Ongoing"}, {}), "are not over"),
        (traces({(0, 31): "PrepareCommit"}, {}), "are not over"),
        (traces({(0, 31): DONE}, {0: [OURS]}, pending=frozenset([1])), "are not over"),
        (traces({(0, 31): DONE}, {0: [BEFORE], 1: [token(8, 32)]}), "a later batch than the checkpoint"),
        (traces({(0, 31): DONE}, {0: [BEFORE], 1: [token(3, 32, "heir")]}), "another query wrote"),
    ],
)
def test_what_contradicts_the_checkpoint_or_is_not_over_is_refused(
    found: Traces, problem: str, is_recorded: bool
) -> None:
    with pytest.raises(UsageError, match=problem):
        find(query(is_recorded=is_recorded), found)


def test_rounds_continue_after_all_that_left_a_trace() -> None:
    assert traces({(0, 30): DONE, (1, 44): LOST}, {0: [token(6, 41)]}).newest_round == 44
    assert traces({(0, 30): DONE}, {0: [token(6, 41)]}).newest_round == 41
    assert traces({}, {}).newest_round == 0
