"""Faults planted into the scheme of visibility, one rule broken at a time, and the law that each of them breaks.

A checker that is to be trusted finds them all. Read the other way round, this is what each rule is there for.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace

from oncelog.protocol import visibility
from oncelog.protocol.partition import OwnerSpan, OwnerState, PartitionState
from oncelog.protocol.visibility import Plan
from oncelog.types import Outcome, ProducerIdAndEpoch
from tests.properties.visibility_model import BACKWARDS, PROGRESS, ROWS, TORN, UNDECIDED
from tests.properties.visibility_world import Scheme

Partitions = Mapping[int, PartitionState]
Owners = Mapping[str, OwnerState]

FOREVER = 2**63


def plain_lso(zxid: int, partitions: Partitions, owners: Owners) -> Plan[int]:
    """Every partition ends at its own first undecided offset."""
    visible, gone = _decided(zxid, owners, Outcome.COMMIT), _decided(zxid, owners, Outcome.ABORT)
    return Plan(zxid, _ends(partitions, visible | gone), visible, gone, {})


def one_pass(zxid: int, partitions: Partitions, owners: Owners) -> Plan[int]:
    """Torn owners are held back, but not those that this tears in turn."""
    visible, gone = _decided(zxid, owners, Outcome.COMMIT), _decided(zxid, owners, Outcome.ABORT)
    ends = _ends(partitions, visible | gone)
    visible -= {span.owner for key, state in partitions.items() for span in state.owners if span.last >= ends[key]}
    return Plan(zxid, _ends(partitions, visible | gone), visible, gone, {})


def torn_by_first(zxid: int, partitions: Partitions, owners: Owners) -> Plan[int]:
    """An owner counts as whole when its first record is below the end, wherever its last one is."""
    cut = {key: replace(state, owners=tuple(map(_up_to_its_first, state.owners))) for key, state in partitions.items()}
    return visibility.plan(zxid, cut, owners)


def decided_before(zxid: int, partitions: Partitions, owners: Owners) -> Plan[int]:
    """d < S instead of d <= S."""
    return visibility.plan(zxid - 1, partitions, owners)


def decided_whenever(zxid: int, partitions: Partitions, owners: Owners) -> Plan[int]:
    """No bound: an owner counts as decided when its znode says so, however late it was read."""
    return replace(visibility.plan(FOREVER, partitions, owners), snapshot_zxid=zxid)


def aborts_block(zxid: int, partitions: Partitions, owners: Owners) -> Plan[int]:
    """Aborted data holds the end back like undecided data."""
    aborted = _decided(zxid, owners, Outcome.ABORT)
    reopened = {name: replace(state, outcome=Outcome.OPEN) for name, state in owners.items() if name in aborted}
    return visibility.plan(zxid, partitions, {**owners, **reopened})


def losers_of_aborts_only(span: OwnerSpan, state: OwnerState) -> tuple[ProducerIdAndEpoch, ...]:
    """The marker of a committed round does not name the participants that lost."""
    return span.producers if state.outcome is Outcome.ABORT else ()


def _decided(zxid: int, owners: Owners, outcome: Outcome) -> frozenset[str]:
    return frozenset(name for name, state in owners.items() if state.decided_zxid <= zxid and state.outcome is outcome)


def _ends(partitions: Partitions, shown: Set[str]) -> dict[int, int]:
    return {
        key: min((span.first for span in state.owners if span.owner not in shown), default=state.log_end)
        for key, state in partitions.items()
    }


def _up_to_its_first(span: OwnerSpan) -> OwnerSpan:
    return replace(span, last=span.first)


@dataclass(frozen=True, slots=True)
class Fault:
    """A broken rule, and the law that the checker must see broken."""

    name: str
    scheme: Scheme
    law: str


FAULTS = [
    Fault("the plan is a plain LSO", Scheme(plan=plain_lso), TORN),
    Fault("the plan looks for torn owners once", Scheme(plan=one_pass), TORN),
    Fault("the plan looks at the first record of an owner only", Scheme(plan=torn_by_first), TORN),
    Fault("the plan has d < S for d <= S", Scheme(plan=decided_before), PROGRESS),
    Fault("the plan has no bound on d", Scheme(plan=decided_whenever), TORN),
    Fault("the plan stops at aborted data", Scheme(plan=aborts_block), PROGRESS),
    Fault("the reader ignores trim", Scheme(is_overtaken=lambda _zxid, _partitions: False), UNDECIDED),
    Fault("the reader reads /commits last", Scheme(reads_commits_first=False), BACKWARDS),
    Fault("the rows are read before the list of owners", Scheme(reads_list_first=False), ROWS),
    Fault("the settler has d < S for d <= S", Scheme(settle_plan=decided_before), PROGRESS),
    Fault("the settler has no bound on d", Scheme(settle_plan=decided_whenever), TORN),
    Fault("the settler plans a plain LSO", Scheme(settle_plan=plain_lso), TORN),
    Fault("the settler does not look at the neighbours", Scheme(settles_neighbours=False), TORN),
    Fault("the settler leaves trim alone", Scheme(raised_trim=lambda trim, _zxid: trim), UNDECIDED),
    Fault("the marker names no aborted pairs", Scheme(losing_pairs=lambda _span, _state: ()), ROWS),
    Fault("the marker of a commit names no losers", Scheme(losing_pairs=losers_of_aborts_only), ROWS),
]
