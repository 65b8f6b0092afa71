"""The last resort for a decided batch that can never be committed: an operator gives it up, and the ledger keeps what.

    <root>/<prefix>/given-up/<n>   GivenUp: what an operator gave up of round n

Assumption: a driver marks a round as complete only after it has shown the batch, in a step of its own. Hence, if both
happen at the same moment, the record says that the batch was shown after all (`note_shown`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from oncelog.batches.ledger import LedgerKind, R
from oncelog.batches.payloads import GivenUp, decode_given_up, encode_given_up
from oncelog.errors import UsageError
from oncelog.ports import ZnodeReader, ZnodeStore, ZnodeView
from oncelog.types import Outcome
from oncelog.znodes.clock import store_now_ms
from oncelog.znodes.transact import resolving

REMEMBERED_PARTS = 100
"""Parts of a round that its record names. A round may have thousands, and the record must fit into its step."""


def give_up(store: ZnodeStore, kind: LedgerKind[Any], prefix: str, *, reason: str, operator: str) -> list[GivenUp]:
    """Mark each decided round of a prefix that is not complete as complete, and record what was given up, in one step.

    What the tasks wrote for it stays where it is, invisible. The query continues with its next batch.

    Returns:
        What this call gave up; empty if nothing was left to complete.

    Raises:
        UnknownPrefixError: no sink has written under the prefix.
        UsageError: the target's rounds cannot be given up in this way.
    """
    completed = kind.completed
    if completed is None:
        raise UsageError("batches of this target are not given up by this command", root=kind.root, prefix=prefix)
    now_ms = resolving(lambda: store_now_ms(store))

    def step(view: ZnodeView) -> None:
        kind.require(view, prefix)
        for number, record in kind.read_rounds(view, prefix).items():
            if record.outcome is Outcome.COMMIT and not kind.is_over(record):
                kind.put_round(view, prefix, number, completed(record))
                found = _given_up(kind, number, record, now_ms, reason, operator)
                put(view, kind, prefix, found)

    resolving(lambda: store.transact(step))
    return [one for one in read_given_up(store, kind, prefix) if one.at_ms == now_ms]


def put(view: ZnodeView, kind: LedgerKind[Any], prefix: str, found: GivenUp) -> None:
    """Within a step: record what an operator gave up."""
    view.create(kind.given_up_path(prefix, found.round), encode_given_up(found))


def _given_up(kind: LedgerKind[R], number: int, record: R, now_ms: int, reason: str, operator: str) -> GivenUp:
    batch_id = -1 if record.batch_id is None else record.batch_id
    return new_record(number, batch_id, now_ms, kind.parts(record), reason, operator)


def new_record(number: int, batch_id: int, now_ms: int, parts: Sequence[str], reason: str, operator: str) -> GivenUp:
    """What an operator gives up of a round; of many parts, only the first ones are named."""
    return GivenUp(number, batch_id, now_ms, tuple(parts[:REMEMBERED_PARTS]), len(parts), reason, operator)


def read_given_up(reader: ZnodeReader, kind: LedgerKind[Any], prefix: str) -> list[GivenUp]:
    """All that was ever given up under a prefix, oldest first."""
    folder = kind.given_up_folder(prefix)
    found = (decode_given_up(f"{folder}/{name}", znode.data) for name, znode in reader.children_data(folder))
    return sorted(found, key=lambda one: one.round)


def note_shown(view: ZnodeView, kind: LedgerKind[Any], prefix: str, number: int) -> None:
    """Within the step of a driver that has shown a round: if it was given up meanwhile, record that it is visible."""
    path = kind.given_up_path(prefix, number)
    znode = view.get(path)
    if znode is not None:
        view.set(path, encode_given_up(replace(decode_given_up(path, znode.data), was_shown=True)))
