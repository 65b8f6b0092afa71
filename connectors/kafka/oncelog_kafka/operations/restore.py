"""Writes saved rows again: those of a transaction that was ended by an abort. restore_cli.py shows it.

The rows of a file are written once, however often and wherever the file is restored, because one transaction writes
them and a *token*: an offset of a group that is named after the transaction that was aborted. The argument:

1. All runs use one transactional id, which is named after the aborted transaction too. A run first asks for a new epoch
   of the id. The coordinator gives it once whatever an older run left behind is over, committed or aborted whole, and
   an older run that is still alive can write nothing any more.
2. Then the run reads the token. It is there if, and only if, a run before this one has committed the rows.
3. Brokers keep the offsets of such a group for ``offsets.retention.minutes``, and no token is older than its file.
   Hence a token that is absent was never there, if the file is younger than that. If it may be older, the run is
   refused.

It is assumed that nobody deletes the group. Brokers 3.x drop a staged offset if an older epoch stages one behind it
(see end_txn.py): there, two runs of one file must not be at work at the same time.

Hence a run that is killed anywhere is run again. What it left open is aborted by the next run, or by its time-out.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

from oncelog.crash_points import reach
from oncelog.errors import OncelogError, OutcomeUnknownError, ProducerFencedError, UsageError
from oncelog_kafka.brokers.producers import KafkaProducers, Marker
from oncelog_kafka.brokers.transactions import Identity, KafkaTransactions, batches
from oncelog_kafka.crash_points import RestoreCrashPoint
from oncelog_kafka.ledger import partition_log
from oncelog_kafka.operations.repair import longest_timeout_ms
from oncelog_kafka.operations.saved_rows import Origin, SavedRows
from oncelog_kafka.patience import patiently, refusal
from oncelog_kafka.protocol import end_txn
from oncelog_kafka.protocol.ports import Answer, Brokers, CommittedOffset, Unstable
from oncelog_kafka.sinks.finishing import CLOCKS_DIFFER_MS, RETENTION_SETTINGS

T = TypeVar("T")

_PASSING = end_txn.PASSING | partition_log.PASSING

_OFFSETS_KEPT = RETENTION_SETTINGS[0]


class Written(NamedTuple):
    """Rows in the partition; the offsets are None if they are no rows."""

    rows: int
    first_offset: int | None
    last_offset: int | None


@dataclass(frozen=True, slots=True)
class Restored:
    """A file whose rows are in the partition again.

    Attributes:
        rows, first_offset, last_offset: where they are.
        is_ours: False if an earlier run has written them.
    """

    file: str
    topic: str
    partition: int
    rows: int
    first_offset: int | None
    last_offset: int | None
    transactional_id: str
    is_ours: bool


def transactional_id(origin: Origin) -> str:
    """Under which the rows of this transaction are written again; also the name of the group with the token."""
    return (
        f"oncelog-restore-{origin.topic_id}-{origin.partition}-{origin.start_offset}-"
        f"{origin.producer_id}.{origin.epoch}"
    )


class Restoring:
    """Restores files of saved rows to their cluster.

    Args:
        producers, brokers, transactions: of the cluster.
        accept_duplicates: also restore rows of which nobody can say that they were dropped and not restored yet.
    """

    def __init__(
        self,
        producers: KafkaProducers,
        brokers: Brokers,
        transactions: KafkaTransactions,
        *,
        accept_duplicates: bool = False,
    ) -> None:
        self._producers = producers
        self._brokers = brokers
        self._transactions = transactions
        self._accept_duplicates = accept_duplicates

    def restore(self, saved: SavedRows) -> Restored:
        """Write the rows of a file, unless an earlier run has done so.

        Raises:
            UsageError: they are of another cluster or topic, or are not known to be dropped; nothing was written.
            OutcomeUnknownError: the brokers did not answer the commit: restore the file again.
            OncelogError: the rows could not be written; what was written of them is aborted.
        """
        origin = saved.origin
        self._check_place(saved)
        self._check_dropped(saved)
        name = transactional_id(origin)
        timeout_ms = longest_timeout_ms(self._brokers)
        who = self._answered(saved, lambda: self._transactions.init(name, timeout_ms))
        reach(RestoreCrashPoint.FENCED)
        found = self._token(saved)
        if found is None:
            self._check_remembered(saved)
            written = self._write(saved, who)
            self._commit(saved, who)
        else:
            written = found
        rows, first, last = written
        return Restored(str(saved.path), *origin.place, rows, first, last, name, found is None)

    # Checks

    def _check_place(self, saved: SavedRows) -> None:
        origin, cluster_id = saved.origin, self._producers.cluster_id()
        if origin.cluster_id != cluster_id:
            raise UsageError(
                "these rows are of another cluster", file=str(saved.path), was=origin.cluster_id, this=cluster_id
            )
        topic_id = self._producers.topic_id(origin.place)
        if origin.topic_id != topic_id:
            raise UsageError(
                "the topic of these rows is gone, or was created again",
                file=str(saved.path),
                topic=origin.topic,
                was=origin.topic_id,
                this=topic_id,
            )

    def _check_dropped(self, saved: SavedRows) -> None:
        """The transaction must have ended by an abort: only then readers do not see its rows.

        Its first row must be there still. Otherwise the marker may be gone too, and the next one of another transaction
        of this producer.
        """
        origin = saved.origin
        is_there = False
        for one in self._producers.read(*origin.place, origin.start_offset):
            is_there = is_there or (one.offset == origin.start_offset and one.producer_id == origin.producer_id)
            if not is_there:
                break
            if isinstance(one, Marker) and one.producer_id == origin.producer_id:
                if one.is_commit:
                    raise UsageError("the rows are not lost: their transaction was committed", **_named(saved))
                return
        if is_there:
            raise UsageError("its transaction is still open: end it by oncelog kafka txn repair", **_named(saved))
        self._doubt("its transaction is gone from the partition, so nobody knows whether it was aborted", saved)

    def _check_remembered(self, saved: SavedRows) -> None:
        minutes = self._brokers.broker_setting(_OFFSETS_KEPT)
        age_ms = self._brokers.clock.now_ms() - saved.origin.saved_ms
        if minutes is None or not -CLOCKS_DIFFER_MS < age_ms < minutes * 60_000 - CLOCKS_DIFFER_MS:
            self._doubt(
                f"the file may be older than what brokers remember ({_OFFSETS_KEPT}), so nobody knows whether it was "
                "restored before",
                saved,
            )

    def _doubt(self, what: str, saved: SavedRows) -> None:
        if not self._accept_duplicates:
            raise UsageError(
                f"{what}; look for its rows, and add --accept-duplicates if they are not there", **_named(saved)
            )

    # The transaction

    def _token(self, saved: SavedRows) -> Written | None:
        """What an earlier run has written; None if there was none."""
        group, place = transactional_id(saved.origin), saved.origin.place
        found = patiently(
            self._brokers.clock,
            "the token of a restore could not be read",
            lambda: self._brokers.offsets({group: [place]})[group].get(place),
            passes=lambda offset: isinstance(offset, Unstable),
            group=group,
        )
        return _written(saved, found) if isinstance(found, CommittedOffset) else None

    def _write(self, saved: SavedRows, who: Identity) -> Written:
        """Write the rows and the token, and abort what was written if that fails."""
        group, place = who.transactional_id, saved.origin.place
        try:
            written = self._write_rows(saved, who)
            token = CommittedOffset((written.last_offset or 0) + 1, _text(saved, written))
            self._done(saved, lambda: self._transactions.add_offsets(who, group))
            self._done(saved, lambda: self._transactions.stage(who, group, place, token))
            reach(RestoreCrashPoint.WRITTEN)
        except BaseException:
            with suppress(OncelogError):
                self._transactions.end(who, is_commit=False)
            raise
        return written

    def _write_rows(self, saved: SavedRows, who: Identity) -> Written:
        place = saved.origin.place
        self._done(saved, lambda: self._transactions.add_partition(who, place))
        rows, first, last = 0, None, None
        for batch, count in batches(who, saved.rows()):
            offset = self._answered(saved, partial(self._producers.append, who.transactional_id, place, batch))
            rows, first, last = rows + count, offset if first is None else first, offset + count - 1
        return Written(rows, first, last)

    def _commit(self, saved: SavedRows, who: Identity) -> None:
        reach(RestoreCrashPoint.COMMIT)
        try:
            self._done(saved, lambda: self._transactions.end(who, is_commit=True))
        except OncelogError as problem:
            raise OutcomeUnknownError(
                "nobody knows whether the rows were committed: restore the file again, which finds out",
                **_named(saved),
                reason=str(problem),
            ) from problem
        reach(RestoreCrashPoint.COMMITTED)

    def _done(self, saved: SavedRows, ask: Callable[[], Answer]) -> None:
        """Send a request until it succeeds."""

        def asked() -> Answer | None:
            answer = ask()
            return None if answer == "NONE" else answer

        self._answered(saved, asked)

    def _answered(self, saved: SavedRows, ask: Callable[[], T | Answer]) -> T:
        """Send a request until there is an answer other than an error that passes."""
        answer = patiently(
            self._brokers.clock,
            "rows could not be restored",
            ask,
            passes=lambda one: isinstance(one, str) and one in _PASSING,
            **_named(saved),
        )
        if not isinstance(answer, str):
            return answer
        if answer in end_txn.AMBIGUOUS:
            raise ProducerFencedError(
                "another run restores these rows, or the transaction timed out; restore the file again",
                **_named(saved),
                answer=answer,
            )
        raise refusal(answer, "rows could not be restored", **_named(saved))


def _named(saved: SavedRows) -> dict[str, Any]:
    origin = saved.origin
    return {
        "file": str(saved.path),
        "topic": origin.topic,
        "partition": origin.partition,
        "offset": origin.start_offset,
    }


# The token ------------------------------------------------------------------------------------------------------------


def _text(saved: SavedRows, written: Written) -> str:
    return json.dumps({**written._asdict(), "sha256": saved.digest}, separators=(",", ":"))


def _written(saved: SavedRows, token: CommittedOffset) -> Written:
    """What a token says.

    Raises:
        UsageError: it is of another file of the same transaction.
    """
    try:
        fields = json.loads(token.metadata)
        digest = fields.pop("sha256")
        found = Written(**fields)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        digest = None
    if digest != saved.digest:
        raise UsageError(
            "another file of the same transaction was restored; compare the two", **_named(saved), token=token.metadata
        )
    return found
