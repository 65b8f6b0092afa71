"""Notices that a ledger lacks the history of a query, by what the cluster remembers of the query's batches."""

from __future__ import annotations

from collections.abc import Iterable

from oncelog.batches.rules import BatchRequest
from oncelog.errors import BatchRefusedError
from oncelog.ports import ZnodeStore
from oncelog_kafka.ledger.ledger import KAFKA_LEDGERS
from oncelog_kafka.protocol import tokens
from oncelog_kafka.protocol.participants import ParticipantId, of_prefix, token_group
from oncelog_kafka.protocol.ports import Brokers, Offsets, Unstable
from oncelog_kafka.protocol.tokens import TokenText


def check(brokers: Brokers, store: ZnodeStore, request: BatchRequest) -> None:
    """Refuse a ledger that lacks the history of this query: its batch may have been decided in another one.

    Another query that failed may have left transactional ids of the prefix before a query's first batch, so that batch
    is refused only if a token names the query.

    Raises:
        BatchRefusedError: the history is in another ledger.
    """
    if KAFKA_LEDGERS.read(store, request.prefix) is not None:
        return
    known = [name for name, _ in of_prefix(request.prefix, brokers.list_ids())]
    if known and (request.batch_id > 0 or _has_token(brokers, request, known)):
        raise BatchRefusedError(
            "the cluster knows transactions of this prefix, and the ledger does not: the history of this query is in "
            "another ledger. Name its place (znodes, ledgerTopic), or copy it with `oncelog kafka ledger copy`; if it "
            "is lost, `oncelog kafka ledger rebuild` writes a new one from the query's checkpoint",
            prefix=request.prefix,
            batch_id=request.batch_id,
        )


def _has_token(brokers: Brokers, request: BatchRequest, known: Iterable[str]) -> bool:
    """Whether a participant of this query was committed, in its first batch or later."""
    parsed = (ParticipantId.parse(name) for name in known)
    found = tokens_of(brokers, request.prefix, {one.partition for one in parsed if one is not None})
    committed = (one for some in found.values() for one in some if isinstance(one, TokenText))
    return any(one.query_id == request.query_id for one in committed)


def tokens_of(brokers: Brokers, prefix: str, partitions: Iterable[int]) -> dict[int, list[TokenText | Unstable]]:
    """The tokens of these partitions of a sink's batches; `Unstable` stands for one whose transaction is undecided."""
    groups = {number: token_group(prefix, number) for number in partitions}
    committed = brokers.offsets(dict.fromkeys(groups.values(), None))
    return {number: _tokens_in(committed[group]) for number, group in groups.items()}


def _tokens_in(offsets: Offsets) -> list[TokenText | Unstable]:
    found = (one if isinstance(one, Unstable) else tokens.read(one.metadata) for one in offsets.values())
    return [one for one in found if one is not None]
