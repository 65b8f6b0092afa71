"""Every interleaving of a small log: two partitions, two transactions, a settler and a reader, znode by znode.

One transaction writes both partitions, the other one of them; each may commit or abort at any time. The settler and the
reader read one znode per step; the settler writes one partition per step. Both go round twice, so that plans are
compared with earlier plans and settlers meet what earlier settlers left.

The search visits every state once, breadth first: a broken law comes with one of the shortest histories that break it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from oncelog.types import Outcome, ProducerIdAndEpoch
from tests.properties import visibility_faults as faults
from tests.properties.visibility_model import BACKWARDS, ROWS, TORN, UNDECIDED, Shown, broken_by, goes_back
from tests.properties.visibility_world import SOUND, Log, Reading, Scheme, Settling, read_rows

PARTITIONS = (0, 1)
ROUNDS = 2
"""Plans of the reader, and runs of the settler."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """What one transaction may still do: append once to each of `left`, or end."""

    name: str
    left: frozenset[int]
    writes_at_most: int
    is_begun: bool = False
    is_ended: bool = False

    @property
    def producer(self) -> ProducerIdAndEpoch:
        return ProducerIdAndEpoch(ord(self.name), 0)


@dataclass(frozen=True, slots=True)
class State:
    log: Log
    transactions: tuple[Transaction, ...]
    reader: Reading | None = None
    plans: tuple[Shown, ...] = ()
    settler: Reading | Settling | None = None
    settlings: int = 0


START = State(
    Log.empty(len(PARTITIONS)),
    (Transaction("A", frozenset(PARTITIONS), 2), Transaction("B", frozenset(PARTITIONS), 1)),
)


def moves(state: State, scheme: Scheme) -> Iterator[tuple[str, State]]:
    """Everything that may happen next, each with its name."""
    for at, transaction in enumerate(state.transactions):
        for name, log, after in transaction_moves(state.log, transaction):
            others = list(state.transactions)
            others[at] = after
            yield name, replace(state, log=log, transactions=tuple(others))
    if len(state.plans) < ROUNDS:
        yield "reader reads", moved_reader(state, scheme)
    if state.settler is not None or state.settlings < ROUNDS:
        yield from settler_moves(state, scheme)


def transaction_moves(log: Log, transaction: Transaction) -> Iterator[tuple[str, Log, Transaction]]:
    if transaction.is_ended:
        return
    name = transaction.name
    if transaction.writes_at_most:
        for partition in sorted(transaction.left):
            after = replace(
                transaction,
                left=transaction.left - {partition},
                writes_at_most=transaction.writes_at_most - 1,
                is_begun=True,
            )
            yield f"{name} appends to {partition}", log.written(partition, name, transaction.producer), after
    if transaction.is_begun:
        for outcome in (Outcome.COMMIT, Outcome.ABORT):
            yield f"{name}: {outcome}", log.decided(name, outcome), replace(transaction, is_ended=True)


def moved_reader(state: State, scheme: Scheme) -> State:
    reading = (state.reader or Reading(PARTITIONS)).step(state.log, scheme)
    if not reading.is_done():
        return replace(state, reader=reading)
    if reading.must_start_over(scheme):
        return replace(state, reader=None)
    return replace(state, reader=None, plans=(*state.plans, reading.shown(scheme)))


def settler_moves(state: State, scheme: Scheme) -> Iterator[tuple[str, State]]:
    settler = state.settler
    if isinstance(settler, Settling):
        log, following = settler.step(state.log, scheme)
        yield "settler writes", replace(state, log=log, settler=following)
        return
    starts = [settler] if settler else [Reading((p,), with_neighbours=scheme.settles_neighbours) for p in PARTITIONS]
    for start in starts:
        reading = start.step(state.log, scheme)
        settlings = state.settlings + (1 if settler is None else 0)
        following = Settling.of(reading, scheme) if reading.is_done() else reading
        yield f"settler of {start.wanted[0]} reads", replace(state, settler=following, settlings=settlings)


def broken_in(before: State, after: State) -> Iterator[str]:
    """The laws that the move from `before` to `after` broke."""
    if len(after.plans) > len(before.plans):
        yield from broken_by(after.plans[-1], after.log.truth)
        if any(goes_back(earlier, after.plans[-1]) for earlier in before.plans):
            yield BACKWARDS
    if after.plans and (after.log is not before.log or after.plans is not before.plans):
        for partition, end in after.plans[-1].ends.items():
            if read_rows(after.log, partition, end) != after.log.truth.rows(partition, 0, end):
                yield ROWS


@dataclass(frozen=True, slots=True)
class Result:
    """How many states there are, and a shortest history for each law that breaks."""

    states: int
    broken: dict[str, list[str]]


def search(scheme: Scheme, *, until: str | None = None) -> Result:
    """Visit every state that can be reached, or those before `until` is broken."""
    seen: dict[Any, tuple[Any, str]] = {identity(START): (None, "")}
    broken: dict[str, list[str]] = {}
    frontier = [START]
    while frontier and until not in broken:
        following = []
        for state in frontier:
            for name, after in moves(state, scheme):
                key = identity(after)
                if key in seen:
                    continue
                seen[key] = (identity(state), name)
                following.append(after)
                for law in broken_in(state, after):
                    broken.setdefault(law, history(seen, key))
        frontier = following
    return Result(len(seen), broken)


def history(seen: dict[Any, tuple[Any, str]], key: Any) -> list[str]:
    names: list[str] = []
    while key is not None:
        key, name = seen[key]
        names.append(name)
    return names[-2::-1]


def identity(state: State) -> Any:
    """What tells states apart, as plain values."""
    log = state.log
    return (
        (log.partitions, log.truth.partitions, log.truth.decisions, tuple(log.owners)),
        state.transactions,
        state.reader and identity_of_reading(state.reader),
        tuple(tuple(plan.ends.values()) for plan in state.plans),
        identity_of_reading(state.settler) if isinstance(state.settler, Reading) else state.settler,
        state.settlings,
    )


def identity_of_reading(reading: Reading) -> Any:
    return (reading.wanted, reading.zxid, tuple(reading.partitions.items()), tuple(reading.owners.items()))
