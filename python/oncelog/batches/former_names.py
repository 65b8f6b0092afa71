"""Handles former names of a sink: its prefix or its sinkName was changed at a restart.

Each prefix has its own ledger, so after a change the new ledger does not know that the query has already written a
batch. So the first step of a run under a prefix also reads the other ledgers of the query, and supersedes those that
may be this sink under a former name.

Assumption: creating a ledger sets the parent of all ledgers, which the step has read. Hence, of two drivers with two
names, the second one sees the first one's ledger. Ledgers of other queries are read outside of the step: there may be
many, and a step conflicts with every change of a znode that it reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from oncelog.batches import rules
from oncelog.batches.ledger import LedgerKind
from oncelog.batches.payloads import decode_ledger
from oncelog.batches.rules import BatchRequest, QueryLedger
from oncelog.ports import ZnodeStore, ZnodeView
from oncelog.znodes import paths
from oncelog.znodes.walking import paths_below

LEDGERS_PER_READ = 500
"""Bounds the size of a reply from the store."""

QueryIds = Mapping[str, str]
"""The query of each ledger, by the path of its znode. It may be outdated: missing ledgers are read in the step."""


class OtherLedgersUnknownError(Exception):
    """A step plans the first batch of its run, and was derived without `read_query_ids`. Users never see it."""


def supersede(
    view: ZnodeView,
    kind: LedgerKind[Any],
    request: BatchRequest,
    stored: QueryLedger | None,
    planned: QueryLedger,
    query_ids: QueryIds | None,
) -> Iterator[tuple[str, int]]:
    """Within the step that plans a batch: supersede ledgers that may be former names of the sink.

    Args:
        request: the batch, which is not in the sink's ledger.
        stored, planned: the sink's ledger before and after this step.
        query_ids: from `read_query_ids`; None if nobody has read them yet.

    Yields:
        prefix and number of the rounds to abort in the same step if they are open.

    Raises:
        BatchRefusedError: see `rules.former_names`.
        OtherLedgersUnknownError: the run is new to the ledger, and `query_ids` is None.
    """
    if stored is not None and stored.run_id == request.run_id:
        return
    if query_ids is None:
        raise OtherLedgersUnknownError
    others = dict(_others(view, kind, request, query_ids))
    for prefix, superseded in rules.former_names(planned, request, others).items():
        kind.put(view, prefix, superseded)
        yield prefix, superseded.current_round


def read_query_ids(store: ZnodeStore, root: str) -> QueryIds:
    """The query of each ledger of a kind."""
    store.sync()
    ledgers = paths_below(store, root)
    found: dict[str, str] = {}
    for at in range(0, len(ledgers), LEDGERS_PER_READ):
        some = ledgers[at : at + LEDGERS_PER_READ]
        for path, znode in zip(some, store.get_many(some), strict=True):
            if znode is not None:
                found[path] = decode_ledger(path, znode.data).query_id
    return found


def _others(
    view: ZnodeView, kind: LedgerKind[Any], request: BatchRequest, query_ids: QueryIds
) -> Iterator[tuple[str, QueryLedger]]:
    own = kind.path(request.prefix)
    for path in paths_below(view, kind.root):
        if path != own and query_ids.get(path, request.query_id) == request.query_id:
            prefix = paths.name_at(path)
            found = kind.read(view, prefix)
            if found is not None:
                yield prefix, found
