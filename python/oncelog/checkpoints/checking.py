"""Whether a checkpoint is whole, and fits what its sources read and what its sinks' ledgers know."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from oncelog.checkpoints.folder import COMMITS, METADATA, OFFSETS, Checkpoint, Damage, DamagedFile
from oncelog.checkpoints.places import Place, TopicExtent
from oncelog.checkpoints.positions import Position, SourceKind, TopicPosition
from oncelog.checkpoints.standing import SinkLedger, fingerprint_of, is_ahead, is_behind

Places = Mapping[SourceKind, Place]
"""Where sources read, by their kind."""

_BACKUP = "restore the checkpoint from a backup of the same moment, or start with a new checkpoint"
_REBASE = "`{} checkpoint rebase DIR NEW_DIR --topic {}`"


class Problem(StrEnum):
    """What can be wrong with a checkpoint."""

    DAMAGED_FILE = "damaged file"
    BACKWARDS = "offsets go backwards"
    OTHER_LOG = "another log"
    MISSING_TOPIC = "topic is missing"
    OTHER_TOPIC = "topic was created again"
    MISSING_PARTITION = "partition is missing"
    BEHIND_RETENTION = "offset is behind retention"
    BEYOND_END = "offset is beyond the end"
    LEDGER_IS_AHEAD = "ledger is ahead"
    LEDGER_IS_BEHIND = "ledger is behind"
    OTHER_FINGERPRINT = "batch has other offsets"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that does not fit.

    Attributes:
        where: the file, the source with topic and partition, or the ledger.
        found: what it says, and what was expected.
        restart: what a restart of the query does.
        remedy: how to fix it.
    """

    problem: Problem
    where: str
    found: str
    restart: str
    remedy: str


def check(checkpoint: Checkpoint, places: Places, ledgers: Sequence[SinkLedger]) -> list[Finding]:
    """Everything that does not fit.

    Args:
        places: what the sources read; sources of other kinds are not compared.
        ledgers: of the query's sinks.
    """
    return [
        *(_damaged(checkpoint, one) for one in checkpoint.damaged),
        *_backwards(checkpoint),
        *_positions(checkpoint, places),
        *_ledgers(checkpoint, ledgers),
    ]


# Files ----------------------------------------------------------------------------------------------------------------


def _damaged(checkpoint: Checkpoint, one: DamagedFile) -> Finding:
    restart, remedy = _consequence(checkpoint, one)
    return Finding(Problem.DAMAGED_FILE, one.file, f"{one.damage}: {one.detail}", restart, remedy)


def _consequence(checkpoint: Checkpoint, one: DamagedFile) -> tuple[str, str]:
    """What a restart does, and how to fix it."""
    stops = "the query stops: Spark cannot read the file"
    match one.damage:
        case Damage.EDITED:
            remedy = "restore the file; if it was edited on purpose, remove the .crc"
            return "the query stops with a ChecksumException", remedy
        case Damage.SEVERAL:
            return f"Spark reads only {METADATA}", "keep the one with the query's id, and move the others away"
        case Damage.MISSING:
            return _without(one.file), _BACKUP
        case Damage.TORN:
            return _torn(checkpoint, one.file, stops)


def _without(file: str) -> str:
    if file == METADATA:
        return "the query gets a new id, and its sinks refuse it or write all batches again"
    if file.startswith(COMMITS):
        return "Spark begins with the newest planned batch: those before it may never have run"
    return "the query stops, or runs a committed batch again"


def _torn(checkpoint: Checkpoint, file: str, stops: str) -> tuple[str, str]:
    newest = {f"{OFFSETS}/{checkpoint.planned}", f"{OFFSETS}/{checkpoint.next_batch - 1}"}
    if file.startswith(COMMITS):
        return stops, f"`rm {file}`: Spark runs the batch again, and oncelog's sinks skip what they decided"
    if file == f"{OFFSETS}/{checkpoint.planned}" and checkpoint.runs_again:
        return stops, f"if no ledger has batch {checkpoint.planned}, `rm {file}`: Spark plans it again; else {_BACKUP}"
    if file.startswith(OFFSETS) and file not in newest:
        return "nothing: Spark reads only the newest batches", "none needed"
    return stops, _BACKUP


# Positions ------------------------------------------------------------------------------------------------------------


def _backwards(checkpoint: Checkpoint) -> Iterator[Finding]:
    numbers = sorted(checkpoint.entries)
    for before, after in pairwise(numbers):
        for source in checkpoint.sources:
            start, end = checkpoint.position(before, source), checkpoint.position(after, source)
            for place, was, now in _fell(start, end):
                yield Finding(
                    Problem.BACKWARDS,
                    f"{OFFSETS}/{after}, source {source}, {place}",
                    f"{now}, and {was} in batch {before}",
                    "rows between both are read twice"
                    if after >= checkpoint.next_batch - 1
                    else "nothing: it is in the past",
                    _BACKUP,
                )


def _fell(start: Position | None, end: Position | None) -> Iterator[tuple[str, int, int]]:
    if start is None or end is None:
        return
    before = start.everywhere
    for name, topic in end.everywhere.items():
        known = before.get(name)
        if known is not None and known.topic_id == topic.topic_id:
            for partition, offset in sorted(topic.offsets.items()):
                if offset < known.offsets.get(partition, 0):
                    yield f"{name}-{partition}", known.offsets[partition], offset


def _positions(checkpoint: Checkpoint, places: Places) -> Iterator[Finding]:
    for source in checkpoint.sources:
        start, end, known = checkpoint.start(source), checkpoint.end(source), checkpoint.newest(source)
        place = None if known is None else places.get(known.kind)
        if known is None or place is None:
            continue
        if known.cluster_id is not None and known.cluster_id != place.cluster_id:
            yield _other_log(source, known.cluster_id, place)
            continue
        found = place.topics({*(start.everywhere if start else ()), *known.everywhere})
        if start is not None:
            yield from _one(source, start, found, is_start=True)
        if end is not None:
            told = set() if start is None else set(start.topics)
            yield from _one(source, end, found, is_start=False, told=told)


def _other_log(source: str, cluster_id: str, place: Place) -> Finding:
    return Finding(
        Problem.OTHER_LOG,
        f"source {source}",
        f"the offsets are of the log {cluster_id}, and {place.name} is {place.cluster_id}",
        "the query stops: its offsets mean nothing here",
        "name the log that the query reads; for a copy of it, `oncelog checkpoint move DIR NEW_DIR --to-path LOG`",
    )


def _one(
    source: str,
    position: Position,
    found: Mapping[str, TopicExtent],
    *,
    is_start: bool,
    told: frozenset[str] | set[str] = frozenset(),
) -> Iterator[Finding]:
    """What does not fit of one end of the next batch; topics in `told` were looked at with its other end."""
    for name, topic in sorted(position.topics.items()):
        extent = found.get(name)
        if name not in told and (problem := _topic(source, name, topic, extent, position.kind)) is not None:
            yield problem
        elif extent is not None and not is_other(topic, extent):
            for partition, offset in sorted(topic.offsets.items()):
                yield from _partition(
                    f"source {source}, {name}-{partition}", partition, offset, extent, is_start=is_start
                )


def is_other(topic: TopicPosition, extent: TopicExtent) -> bool:
    """Whether the topic was created again since."""
    return None not in (topic.topic_id, extent.topic_id) and topic.topic_id != extent.topic_id


def _topic(
    source: str, name: str, topic: TopicPosition, extent: TopicExtent | None, kind: SourceKind
) -> Finding | None:
    where = f"source {source}, topic {name}"
    if extent is None:
        return Finding(
            Problem.MISSING_TOPIC,
            where,
            "there is no such topic, or this user may not see it",
            "the query stops; with failOnDataLoss=false it goes on without the topic",
            "if it has another name now, `checkpoint move DIR NEW_DIR --topic "
            f"{name}=NEW`; if it is created again, {_REBASE.format(program(kind), name)}",
        )
    if is_other(topic, extent):
        return Finding(
            Problem.OTHER_TOPIC,
            where,
            f"the offsets are of the topic {topic.topic_id}, and there is {extent.topic_id}",
            "the query stops; with failOnDataLoss=false it begins the new topic at its start",
            _REBASE.format(program(kind), name),
        )
    return None


def program(kind: SourceKind) -> str:
    """The command whose group `checkpoint` is for sources of this kind."""
    return "oncelog kafka" if kind in {SourceKind.KAFKA, SourceKind.SPARKS_KAFKA} else "oncelog"


def _partition(where: str, partition: int, offset: int, topic: TopicExtent, *, is_start: bool) -> Iterator[Finding]:
    extent = topic.partitions.get(partition)
    stops = "the query stops; with failOnDataLoss=false it "
    if extent is None:
        yield Finding(
            Problem.MISSING_PARTITION,
            where,
            f"the topic has {len(topic.partitions)} partitions",
            stops + "goes on without the partition",
            "the topic was created again with fewer partitions: rebase the checkpoint",
        )
    elif is_start and offset < extent.start:
        yield Finding(
            Problem.BEHIND_RETENTION,
            where,
            f"{offset}, and the log starts at {extent.start}: {extent.start - offset} offsets are gone",
            stops + f"goes on at {extent.start}",
            "set failOnDataLoss=false for one start, which accepts the loss",
        )
    elif offset > extent.end:
        yield Finding(
            Problem.BEYOND_END,
            where,
            f"{offset}, and the log ends at {extent.end}",
            stops + "goes on at the end, or reads again",
            "the topic was created again, or the log is an older copy: name the newest copy, or rebase the checkpoint",
        )


# Ledgers --------------------------------------------------------------------------------------------------------------


def _ledgers(checkpoint: Checkpoint, ledgers: Sequence[SinkLedger]) -> Iterator[Finding]:
    for one in ledgers:
        where = f"ledger {one.prefix} of {one.target}"
        if is_ahead(one, checkpoint):
            yield Finding(
                Problem.LEDGER_IS_AHEAD,
                where,
                f"its last batch is {one.last_batch_id}, and the newest planned batch is {checkpoint.planned}",
                "the sink refuses the batch: the checkpoint is an older copy",
                "continue from the newest checkpoint, or start a new query with its own prefix",
            )
        elif is_behind(one, checkpoint):
            last = "none" if one.last_batch_id is None else one.last_batch_id
            yield Finding(
                Problem.LEDGER_IS_BEHIND,
                where,
                f"its last batch is {last}, and the checkpoint has committed batch {checkpoint.next_batch - 1}",
                "the sink goes on, and what the batches between held is not there",
                "if the sink has another prefix now, give --prefix; else restore the ledger's newest copy",
            )
        elif one.last_batch_id == checkpoint.planned and checkpoint.runs_again:
            yield from _fingerprint(checkpoint, one, where)


def _fingerprint(checkpoint: Checkpoint, ledger: SinkLedger, where: str) -> Iterator[Finding]:
    """Only of the batch that will be run again: a moved or rebased checkpoint has other offsets for those before."""
    computed = fingerprint_of(checkpoint, checkpoint.next_batch)
    if computed not in (None, ledger.last_fingerprint):
        yield Finding(
            Problem.OTHER_FINGERPRINT,
            where,
            f"batch {ledger.last_batch_id} was written with other offsets than {OFFSETS}/{checkpoint.planned} has",
            "the sink refuses the batch",
            "continue from the newest checkpoint, or start a new query with its own prefix",
        )
