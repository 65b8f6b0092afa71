"""What a sink wrote, or writes still, under a former name: its prefix or its sinkName was changed at a restart.

A ledger is kept by prefix, so one that is new to a batch cannot know that the query wrote it already. Hence the first
step of a run under a prefix looks at the ledgers of the same query as well, and supersedes those that may be its own.

Assumption: a ledger that is created later sets the znode above all of them, which the step has read; so of two drivers
under two names the second sees the first. The ledgers of other queries are read beside the step: they may be many, and
every znode that a step reads is one that others' steps make it start over for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from oncelog.ledger.kinds import LedgerKind
from oncelog.ledger.payloads import decode_ledger
from oncelog.ports import ZnodeStore, ZnodeView
from oncelog.protocol import batch_ledger
from oncelog.protocol.batch_ledger import BatchRequest, QueryLedger
from oncelog.znodes import paths
from oncelog.znodes.walking import paths_below

T = TypeVar("T")

LEDGERS_PER_READ = 500
"""Bounds a reply of the store."""

QueryIds = Mapping[str, str]
"""The query of each ledger, by the path of its znode. It may be outdated: what is missing there is looked up."""


class QueryIdsNeeded(Exception):  # noqa: N818 - a question to `planning`, never an error a user sees
    """A step has to know the other ledgers: it is the first of its run."""


def planning(store: ZnodeStore, kind: LedgerKind[Any], plan: Callable[[QueryIds | None], T]) -> T:
    """Run `plan`; where it is the first step of its run, once more with the queries of all ledgers of its kind."""
    try:
        return plan(None)
    except QueryIdsNeeded:
        return plan(_query_ids(store, kind.root))


def supersede(
    view: ZnodeView,
    kind: LedgerKind[Any],
    request: BatchRequest,
    stored: QueryLedger | None,
    planned: QueryLedger,
    query_ids: QueryIds | None,
) -> Iterator[tuple[str, int]]:
    """Within the step that plans a batch: end what may be under way under a former name of the sink.

    Args:
        view: of the step.
        kind: of the ledger.
        request: the batch, which the sink's ledger does not hold.
        stored, planned: the sink's ledger before and after this step.
        query_ids: see `planning`.

    Yields:
        prefix and number of rounds to abort in the same step, if they are open.

    Raises:
        BatchRefusedError: see `batch_ledger.former_names`.
    """
    if stored is not None and stored.run_id == request.run_id:
        return
    if query_ids is None:
        raise QueryIdsNeeded
    others = dict(_others(view, kind, request, query_ids))
    for prefix, superseded in batch_ledger.former_names(planned, request, others).items():
        kind.put(view, prefix, superseded)
        yield prefix, superseded.current_round


def _query_ids(store: ZnodeStore, root: str) -> QueryIds:
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
