"""What the ledgers of a store say, whatever their batches are written to: the last batch, and what a restart does next.

Only ledgers are read. Whether a decided batch is visible yet is known to its target.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from oncelog.errors import UnknownPrefixError
from oncelog.ledger.kinds import EMBEDDED, LedgerKind, all_kinds
from oncelog.ports import ZnodeReader
from oncelog.types import Outcome

LOG: Final = "log"
"""The target whose ledgers a log has for itself."""

_RECOVERY: Final[Mapping[Outcome, str]] = {
    Outcome.OPEN: "undoes this round and writes the batch again",
    Outcome.COMMIT: "completes the batch where it is not visible yet, and writes the next one",
    Outcome.ABORT: "writes the batch again",
}


@dataclass(frozen=True, slots=True)
class LedgerOverview:
    """One ledger.

    Attributes:
        target: what its sink writes to, such as ``postgres``.
        prefix, query_id, sink_name, run_id: whose ledger it is.
        last_batch_id: of the last decided batch; None before the first one.
        round, batch_id, outcome: of the newest round; None if no round has a znode.
        recovery: what a restart of the query does.
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
    recovery: str


def list_ledgers(reader: ZnodeReader) -> list[LedgerOverview]:
    """All ledgers of a store, by target and prefix, as far as the packages of their targets are installed."""
    found = (one for kind in all_kinds() for prefix in kind.prefixes(reader) for one in _overview(reader, kind, prefix))
    return sorted(found, key=lambda one: (one.target, one.prefix))


def find_ledgers(reader: ZnodeReader, prefix: str) -> list[LedgerOverview]:
    """The ledgers of a prefix; sinks of several targets may have the same one.

    Raises:
        UnknownPrefixError: there is none.
    """
    kinds = [(kind, kind.prefixes(reader)) for kind in all_kinds()]
    found = [one for kind, prefixes in kinds if prefix in prefixes for one in _overview(reader, kind, prefix)]
    if not found:
        raise UnknownPrefixError(
            "no sink has written under this prefix with its ledger here",
            prefix=prefix,
            known=sorted({known for _, prefixes in kinds for known in prefixes}),
        )
    return sorted(found, key=lambda one: one.target)


def _overview(reader: ZnodeReader, kind: LedgerKind[Any], prefix: str) -> Iterator[LedgerOverview]:
    ledger = kind.read(reader, prefix)
    if ledger is None:  # deleted meanwhile
        return
    newest = kind.read_round(reader, prefix, ledger.current_round)
    yield LedgerOverview(
        target=LOG if kind is EMBEDDED else kind.root.strip("/"),
        prefix=prefix,
        query_id=ledger.query_id,
        sink_name=ledger.sink_name,
        run_id=ledger.run_id,
        last_batch_id=ledger.last.batch_id if ledger.last else None,
        round=None if newest is None else ledger.current_round,
        batch_id=None if newest is None else newest.batch_id,
        outcome=None if newest is None else newest.outcome,
        recovery="writes its next batch" if newest is None else _RECOVERY[newest.outcome],
    )
