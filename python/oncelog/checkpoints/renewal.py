"""What every new checkpoint needs: a query at rest, whose batches are decided as far as its offsets are changed.

Offsets are the input of batches, and the ledger knows a batch by them. So they may only be changed behind the last
batch that counts: one that Spark has committed, or that the ledger says is decided and complete. A planned batch that
is not decided has written nothing that counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from oncelog.checkpoints.checking import program
from oncelog.checkpoints.folder import COMMITS, FIRST_IDS, OFFSETS, Checkpoint, numbers
from oncelog.checkpoints.places import Extent, Place
from oncelog.checkpoints.positions import Position, SourceKind
from oncelog.checkpoints.standing import SinkLedger, Standing, is_ahead, is_behind, standing_of
from oncelog.checkpoints.storage import Storage
from oncelog.errors import OffsetOutOfRangeError, UsageError
from oncelog.spark.kit.offset_log import Entry

_NO_WATERMARK = 'v1\n{"nextBatchWatermarkMs":0}'


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets of a partition: ``[start, end)``; the end is None where nobody knows it."""

    topic: str
    partition: int
    start: int
    end: int | None


@dataclass(frozen=True, slots=True)
class NewCheckpoint:
    """What was written.

    Attributes:
        folder: the new checkpoint.
        next_batch: with which the query goes on from it.
        changed: the sources whose offsets are other ones now.
        committed_batch: the batch that the ledger says is decided, and that is committed in the new checkpoint.
        dropped_batch: the planned batch that is not in the new checkpoint.
        lost: what the dropped batch would have read of the topic that is gone.
        left_behind: from where on nobody read the topic that is gone.
        operators: stateful operators whose state was copied as it is.
    """

    folder: str
    query_id: str | None
    next_batch: int
    changed: tuple[str, ...]
    committed_batch: int | None = None
    dropped_batch: int | None = None
    lost: tuple[Range, ...] = ()
    left_behind: tuple[Range, ...] = ()
    operators: tuple[str, ...] = ()


# Checks ---------------------------------------------------------------------------------------------------------------


def standing(checkpoint: Checkpoint, ledgers: Sequence[SinkLedger]) -> Standing:
    """Where the newest batch stands.

    Raises:
        UsageError: the checkpoint is damaged or an older copy, the query runs, or a batch must be completed first.
    """
    if checkpoint.damaged:
        raise UsageError(
            "the checkpoint is damaged: `checkpoint verify` shows how to fix it",
            files=[one.file for one in checkpoint.damaged],
        )
    ahead = [one.prefix for one in ledgers if is_ahead(one, checkpoint)]
    if ahead:
        raise UsageError(
            "the ledger has a later batch: this checkpoint is an older copy; use the newest one", prefixes=ahead
        )
    if ledgers and all(is_behind(one, checkpoint) for one in ledgers):
        raise UsageError(
            "the ledger lacks batches that the checkpoint has committed: it is an older copy, or another sink's",
            prefixes=[one.prefix for one in ledgers],
            committed=checkpoint.next_batch - 1,
        )
    standing = standing_of(checkpoint, ledgers)
    if standing is Standing.OPEN:
        raise UsageError(
            "a round of the query is open: stop the query; if it is stopped, abort the round with `oncelog batch abort "
            "PREFIX` (or `oncelog kafka txn abort --prefix PREFIX`)",
            prefixes=[one.prefix for one in ledgers],
        )
    if standing is Standing.INCOMPLETE:
        raise undecided(
            "it is decided, and not complete: start the query once, or run `oncelog batch complete`", checkpoint
        )
    return standing


def undecided(why: str, checkpoint: Checkpoint) -> UsageError:
    """The error for a batch of which nobody can tell whether it counts."""
    return UsageError(
        f"batch {checkpoint.planned} is planned and not committed; {why}"
        if checkpoint.planned is not None
        else "the query has planned no batch: start it with a new checkpoint",
        query_id=checkpoint.query_id,
    )


def check_stateless(checkpoint: Checkpoint) -> None:
    """Refuse to commit a batch by hand whose state only Spark can complete."""
    if checkpoint.operators:
        raise UsageError(
            f"batch {checkpoint.planned} is decided, and Spark has not committed it with its state: start the query "
            "once on the old checkpoint, until Spark has committed the batch",
            operators=list(checkpoint.operators),
        )


def check_log(known: Position, place: Place) -> None:
    """Refuse to compare offsets with another log than theirs."""
    if known.cluster_id is not None and known.cluster_id != place.cluster_id:
        raise UsageError(
            "the checkpoint's offsets are of another log", checkpoint_cluster_id=known.cluster_id, named=place.name
        )


def no_place(kind: SourceKind) -> UsageError:
    """The error for offsets that cannot be compared with anything."""
    option = "--brokers, of `oncelog kafka checkpoint`" if program(kind) == "oncelog kafka" else "--path"
    return UsageError(f"the offsets must be compared with the topics: give {option}", source=kind.value)


def check_held(topic: str, partition: int, offset: int, extent: Extent | None) -> None:
    """Refuse an offset that the topic does not have."""
    if extent is None or not extent.start <= offset <= extent.end:
        raise OffsetOutOfRangeError(
            "the topic does not have the offset where the query goes on: rows would be lost or read twice",
            topic=topic,
            partition=partition,
            offset=offset,
            log_start=None if extent is None else extent.start,
            log_end=None if extent is None else extent.end,
        )


# Files ----------------------------------------------------------------------------------------------------------------


def pair(
    checkpoint: Checkpoint, base: int, position: Callable[[int, str], Position | None], *, same: bool
) -> dict[int, Entry]:
    """The entries of the new offset log: Spark reads the newest one and that before it.

    Args:
        same: batch `base` is over, so that only its end counts; the entry before it gets the same one.
    """
    entries: dict[int, Entry] = {}
    for batch_id in (base - 1, base):
        of = base if same else batch_id
        if batch_id >= 0:
            whole = checkpoint.entries[of]
            moved = {source: position(of, source) for source in whole.offsets}
            offsets = {source: None if one is None else one.text for source, one in moved.items()}
            entries[batch_id] = replace(checkpoint.entries.get(batch_id, whole), offsets=offsets)
    return entries


def files_of(entries: Mapping[int, Entry]) -> dict[str, str]:
    """The files of entries of the offset log, by name."""
    return {f"{OFFSETS}/{number}": entry.to_text() for number, entry in entries.items()}


def commit(checkpoint: Checkpoint, *, decided: bool) -> dict[str, str]:
    """The commit of a batch that the ledger says is decided. Without state, nobody needs its watermark."""
    if not decided:
        return {}
    (before,) = checkpoint.storage.read([f"{COMMITS}/{checkpoint.committed}"])
    return {f"{COMMITS}/{checkpoint.planned}": _NO_WATERMARK if before is None else before.decode()}


def left_out(checkpoint: Checkpoint, replaced: Mapping[str, str]) -> set[str]:
    """Entries of the offset log that the new one lacks, and files of ids that it has in one."""
    entries = {f"{OFFSETS}/{number}" for number in numbers(checkpoint.names, OFFSETS)}
    stems = tuple(name.removesuffix(".json") for name in replaced if name.endswith(FIRST_IDS))
    ids = {name for name in checkpoint.names if stems and name.startswith(stems)}
    return (entries | ids) - set(replaced)


def new(
    checkpoint: Checkpoint,
    target: Storage,
    next_batch: int,
    *,
    changed: tuple[str, ...] = (),
    committed_batch: int | None = None,
    dropped_batch: int | None = None,
    lost: tuple[Range, ...] = (),
    left_behind: tuple[Range, ...] = (),
) -> NewCheckpoint:
    """What was written; see `NewCheckpoint`."""
    return NewCheckpoint(
        target.location,
        checkpoint.query_id,
        next_batch,
        changed,
        committed_batch,
        dropped_batch,
        lost,
        left_behind,
        checkpoint.operators,
    )
