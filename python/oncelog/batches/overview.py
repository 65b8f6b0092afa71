"""What the ledgers of a store say, whatever their batches are written to: the last batch, and what a restart does next.

Only ledgers are read. A target that shows decided batches marks the round once it has done so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from oncelog.batches.giving_up import read_given_up
from oncelog.batches.ledger import LOG, LedgerKind, all_kinds
from oncelog.batches.payloads import GivenUp
from oncelog.batches.rules import LastBatch
from oncelog.errors import UnknownPrefixError, UsageError
from oncelog.ports import ZnodeReader, ZnodeStore
from oncelog.types import Outcome


@dataclass(frozen=True, slots=True)
class LedgerOverview:
    """One ledger.

    Attributes:
        target: what its sink writes to, such as ``postgres``.
        prefix, query_id, sink_name, run_id: whose ledger it is.
        last_batch_id: of the last decided batch; None before the first one.
        round, batch_id, outcome: of the newest round; None if no round has a znode.
        is_over: whether the newest round's outcome was carried out, as far as the ledger knows: a decided batch is
            visible, what an aborted one left is removed. False while it is open; None if no round has a znode.
        parts: what the newest round consists of, once it is decided.
        recovery: what a restart of the query does.
        given_up: what operators gave up of decided batches, oldest first.
    """

    target: str
    prefix: str
    query_id: str
    sink_name: str
    run_id: str
    last_batch_id: int | None
    round: int | None
    batch_id: int | None
    outcome: Outcome | None
    is_over: bool | None
    parts: tuple[str, ...]
    recovery: str
    given_up: tuple[GivenUp, ...] = ()


def list_ledgers(reader: ZnodeReader) -> list[LedgerOverview]:
    """All ledgers of a store, by target and prefix, as far as the packages of their targets are installed."""
    found = (
        one
        for target, kind in all_kinds().items()
        for prefix in kind.prefixes(reader)
        for one in _overview(reader, target, kind, prefix)
    )
    return sorted(found, key=lambda one: (one.target, one.prefix))


def find_ledgers(reader: ZnodeReader, prefix: str) -> list[LedgerOverview]:
    """The ledgers of a prefix; sinks of several targets may have the same one.

    Raises:
        UnknownPrefixError: there is none.
    """
    kinds = [(target, kind, kind.prefixes(reader)) for target, kind in all_kinds().items()]
    having = ((target, kind) for target, kind, prefixes in kinds if prefix in prefixes)
    found = [one for target, kind in having for one in _overview(reader, target, kind, prefix)]
    if not found:
        raise UnknownPrefixError(
            "no sink has written under this prefix with its ledger here",
            prefix=prefix,
            known=sorted({known for _, _, prefixes in kinds for known in prefixes}),
        )
    return sorted(found, key=lambda one: one.target)


def of_query(reader: ZnodeReader, query_id: str) -> list[tuple[LedgerOverview, LastBatch | None]]:
    """The ledgers of one query, each with its last decided batch; several if it has, or had, several sinks."""
    found: list[tuple[LedgerOverview, LastBatch | None]] = []
    for target, kind in all_kinds().items():
        for prefix in kind.prefixes(reader):
            ledger = kind.read(reader, prefix)
            if ledger is not None and ledger.query_id == query_id:
                found += [(one, ledger.last) for one in _overview(reader, target, kind, prefix)]
    return sorted(found, key=lambda pair: (pair[0].target, pair[0].prefix))


def abort(store: ZnodeStore, prefix: str) -> dict[str, int]:
    """Abort the undecided rounds of a prefix, whatever their target; what they wrote there is removed by a restart.

    Returns:
        The numbers of the rounds that are aborted now and were not, by target.

    Raises:
        UnknownPrefixError: there is no such prefix.
        UsageError: one of the rounds is a log's, whose other metadata belongs to it.
    """
    is_open = [one for one in find_ledgers(store, prefix) if one.outcome is Outcome.OPEN]
    if any(one.target == LOG for one in is_open):
        raise UsageError("the undecided round is a log's: name the log, with its path", prefix=prefix)
    kinds, rounds = all_kinds(), {one.target: one.round for one in is_open if one.round is not None}
    return {target: number for target, number in rounds.items() if kinds[target].abort(store, prefix, number)}


def _overview(reader: ZnodeReader, target: str, kind: LedgerKind[Any], prefix: str) -> Iterator[LedgerOverview]:
    ledger = kind.read(reader, prefix)
    if ledger is None:  # deleted meanwhile
        return
    newest = kind.read_round(reader, prefix, ledger.current_round)
    yield LedgerOverview(
        target=target,
        prefix=prefix,
        query_id=ledger.query_id,
        sink_name=ledger.sink_name,
        run_id=ledger.run_id,
        last_batch_id=ledger.last.batch_id if ledger.last else None,
        round=None if newest is None else ledger.current_round,
        batch_id=None if newest is None else newest.batch_id,
        outcome=None if newest is None else newest.outcome,
        is_over=None if newest is None else kind.is_carried_out(newest),
        parts=() if newest is None else tuple(kind.parts(newest)),
        recovery="writes its next batch" if newest is None else _recovery(newest.outcome, kind.is_carried_out(newest)),
        given_up=tuple(read_given_up(reader, kind, prefix)),
    )


def _recovery(outcome: Outcome, is_over: bool) -> str:
    if outcome is Outcome.OPEN:
        return "undoes this round and writes the batch again"
    if outcome is Outcome.COMMIT:
        return "writes its next batch" if is_over else "completes the batch, and writes the next one"
    return "writes the batch again" if is_over else "removes what is left of this round, and writes the batch again"
