"""A checkpoint for a topic that was deleted and created again: the next batch begins in the new topic.

A planned batch that is not decided is dropped: what it would have read of the former topic is gone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from oncelog.checkpoints import positions, renewal, writing
from oncelog.checkpoints.checking import Places, is_other
from oncelog.checkpoints.folder import FIRST_IDS, SOURCES, Checkpoint
from oncelog.checkpoints.places import TopicExtent
from oncelog.checkpoints.positions import Position, SourceKind, TopicPosition
from oncelog.checkpoints.renewal import NewCheckpoint, Range
from oncelog.checkpoints.standing import SinkLedger, Standing
from oncelog.checkpoints.storage import Storage
from oncelog.errors import UnknownTopicError, UsageError


def rebase(
    checkpoint: Checkpoint,
    target: Storage,
    topic: str,
    starts: Callable[[TopicExtent], Mapping[int, int]],
    *,
    places: Places,
    ledgers: Sequence[SinkLedger],
    accept_loss: bool,
) -> NewCheckpoint:
    """Copy a checkpoint, for a topic that was deleted and created again: the next batch begins in the new topic.

    Args:
        target: the new folder.
        topic: its name.
        starts: where to begin in each partition of the new topic.
        places: what the sources read.
        ledgers: of the query's sinks.
        accept_loss: drop a planned batch that was not decided, though it would have read rows that are gone.

    Raises:
        UsageError: this would lose or double rows, or nobody can tell; or the topic is the same one.
        UnknownTopicError: there is no such topic.
    """
    standing = renewal.standing(checkpoint, ledgers)
    if standing in {Standing.UNKNOWN, Standing.SPLIT, Standing.NONE_PLANNED}:
        raise renewal.undecided(
            "nobody can tell whether its rows, which are gone, count: name the sink's ledger", checkpoint
        )
    if standing is Standing.DECIDED:
        renewal.check_stateless(checkpoint)
    dropped = checkpoint.planned if standing is Standing.UNDECIDED else None
    base = checkpoint.next_batch - 1 if standing is not Standing.DECIDED else checkpoint.next_batch
    if base < 0:
        raise UsageError(
            "the query has written no batch: start it with a new checkpoint (and takeover=<its id>, if its prefix "
            "has a ledger)",
            query_id=checkpoint.query_id,
        )
    change = _Rebasing(checkpoint, topic, base, starts, places, accept_loss=accept_loss)
    lost = tuple(change.lost()) if dropped is not None else ()
    if lost and not accept_loss:
        raise UsageError(
            f"batch {dropped} is planned and not decided, and its rows of the topic are gone: --accept-loss drops it",
            lost=[f"{one.topic}-{one.partition}: {one.start} to {one.end}" for one in lost],
        )
    decided = standing is Standing.DECIDED
    entries = renewal.pair(checkpoint, base, change.position, same=True)
    replaced = {**renewal.files_of(entries), **change.source_files(), **renewal.commit(checkpoint, decided=decided)}
    writing.write(checkpoint.storage, target, replaced, renewal.left_out(checkpoint, replaced))
    return renewal.new(
        checkpoint,
        target,
        base + 1,
        changed=tuple(change.sources),
        committed_batch=base if decided else None,
        dropped_batch=dropped,
        lost=lost,
        left_behind=tuple(change.left_behind()),
    )


class _Rebasing:
    """The offsets of a query after one of its topics was created again."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        topic: str,
        base: int,
        starts: Callable[[TopicExtent], Mapping[int, int]],
        places: Places,
        *,
        accept_loss: bool,
    ) -> None:
        self._checkpoint = checkpoint
        self._topic = topic
        self._base = base
        known = {source: checkpoint.position(base, source) for source in checkpoint.sources}
        self._old = {source: one for source, one in known.items() if one is not None and topic in one.everywhere}
        self.sources = list(self._old)
        if not self._old:
            raise UsageError("the checkpoint has no offsets of this topic", topic=topic)
        self._new = {
            source: self._begun(one, starts, places, accept_loss=accept_loss) for source, one in self._old.items()
        }

    def position(self, batch_id: int, source: str) -> Position | None:
        """Where the source ends in the new checkpoint's last batch."""
        found = self._new.get(source)
        if found is None:
            return self._checkpoint.position(self._base, source)
        return replace(found, text=positions.written(found, self._ids(source)))

    def source_files(self) -> dict[str, str]:
        """The first ids of the topics of Kafka's sources: of this one, the new id."""
        return {
            f"{SOURCES}/{source}/{FIRST_IDS}": json.dumps(self._ids(source), separators=(",", ":"))
            for source in self.sources
            if source in self._checkpoint.first_ids
        }

    def lost(self) -> Iterator[Range]:
        """What the planned batch would have read of the former topic."""
        for source, start in self._old.items():
            former = start.everywhere[self._topic]
            planned = self._planned(source, former)
            for partition, offset in sorted(former.offsets.items()):
                if planned.offsets.get(partition, 0) > offset:
                    yield Range(self._topic, partition, offset, planned.offsets[partition])

    def left_behind(self) -> Iterator[Range]:
        """From where on the query had not read the former topic."""
        for source, start in self._old.items():
            former = start.everywhere[self._topic]
            for partition, offset in sorted(self._planned(source, former).offsets.items()):
                yield Range(self._topic, partition, offset, None)

    def _planned(self, source: str, former: TopicPosition) -> TopicPosition:
        """How far the newest batch was to read of the former topic; no further if it was planned of the new one."""
        end = self._checkpoint.end(source)
        planned = None if end is None else end.topics.get(self._topic)
        return former if planned is None or planned.topic_id != former.topic_id else planned

    def _ids(self, source: str) -> dict[str, str]:
        topic_id = self._new[source].topics[self._topic].topic_id
        ids = dict(self._checkpoint.first_ids.get(source, {}))
        return ids if topic_id is None else {**ids, self._topic: topic_id}

    def _begun(
        self,
        old: Position,
        starts: Callable[[TopicExtent], Mapping[int, int]],
        places: Places,
        *,
        accept_loss: bool,
    ) -> Position:
        place = places.get(old.kind)
        if place is None:
            raise renewal.no_place(old.kind)
        renewal.check_log(old, place)
        extent = place.topics([self._topic]).get(self._topic)
        if extent is None:
            raise UnknownTopicError("there is no such topic now: create it first", topic=self._topic, at=place.name)
        self._check_created_again(old.everywhere[self._topic], extent, accept_loss=accept_loss)
        begins = starts(extent)
        for partition in extent.partitions.keys() | begins.keys():
            renewal.check_held(self._topic, partition, begins.get(partition, -1), extent.partitions.get(partition))
        topic_id = None if old.kind is SourceKind.SPARKS_KAFKA else extent.topic_id
        absent = {name: topic for name, topic in old.absent.items() if name != self._topic}
        return replace(old, topics={**old.topics, self._topic: TopicPosition(topic_id, begins)}, absent=absent)

    def _check_created_again(self, old: TopicPosition, extent: TopicExtent, *, accept_loss: bool) -> None:
        is_known = None not in (old.topic_id, extent.topic_id)
        if is_known and not is_other(old, extent):
            raise UsageError(
                "the topic is the one that the query has read: rows would be lost or read twice", topic=self._topic
            )
        held = extent.partitions
        is_beyond = any(p not in held or offset > held[p].end for p, offset in old.offsets.items())
        if not is_known and not is_beyond and not accept_loss:
            raise UsageError(
                "the checkpoint names no ids of topics, and the topic has all of its offsets, so it may be the same "
                "one: if it was created again, give --accept-loss",
                topic=self._topic,
            )
