"""A checkpoint for other names of its topics, or for another place where they can be read.

A planned batch that is not decided is carried: it runs again over the same rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from oncelog.checkpoints import positions, renewal, writing
from oncelog.checkpoints.checking import Places
from oncelog.checkpoints.folder import FIRST_IDS, INITIAL_OFFSETS, SOURCES, Checkpoint
from oncelog.checkpoints.places import TopicExtent
from oncelog.checkpoints.positions import Position, SourceKind, TopicPosition
from oncelog.checkpoints.renewal import NewCheckpoint
from oncelog.checkpoints.standing import SinkLedger, Standing, is_behind
from oncelog.checkpoints.storage import Storage
from oncelog.errors import UnknownTopicError, UsageError


def move(
    checkpoint: Checkpoint,
    target: Storage,
    *,
    topics: Mapping[str, str],
    places: Places,
    elsewhere: Places,
    ledgers: Sequence[SinkLedger],
    ledgers_there: Sequence[SinkLedger] = (),
) -> NewCheckpoint:
    """Copy a checkpoint, for other names of its topics, or for another place to read them.

    Args:
        target: the new folder.
        topics: the new name of each topic that was renamed.
        places: what the sources read now.
        elsewhere: where they shall read the same offsets, by their kind.
        ledgers: of the query's sinks.
        ledgers_there: those of them that `elsewhere` has, if it is a copy with the ledgers.

    Raises:
        UsageError: this would lose or double rows, or nobody can tell.
        UnknownTopicError, OffsetOutOfRangeError: the other place does not have the offsets.
    """
    standing = renewal.standing(checkpoint, [*ledgers, *ledgers_there])
    _check_not_behind(checkpoint, ledgers, ledgers_there)
    change = _Renaming(checkpoint, topics, places, elsewhere)
    changed = change.changed_sources()
    if not changed:
        writing.write(checkpoint.storage, target, {}, ())
        return renewal.new(checkpoint, target, checkpoint.next_batch)
    if standing is Standing.UNKNOWN:
        raise renewal.undecided("no ledger says whether it is decided: name the sink's ledger", checkpoint)
    decided = standing is Standing.DECIDED
    if decided:
        renewal.check_stateless(checkpoint)
    if standing is Standing.SPLIT:
        raise renewal.undecided("only some of the query's sinks have decided it", checkpoint)
    base = checkpoint.planned
    runs_again = checkpoint.runs_again and not decided
    entries = {} if base is None else renewal.pair(checkpoint, base, change.position, same=not runs_again)
    replaced = {**renewal.files_of(entries), **change.source_files(), **renewal.commit(checkpoint, decided=decided)}
    writing.write(checkpoint.storage, target, replaced, renewal.left_out(checkpoint, replaced))
    return renewal.new(
        checkpoint,
        target,
        checkpoint.next_batch + decided,
        changed=tuple(changed),
        committed_batch=base if decided else None,
    )


def _check_not_behind(
    checkpoint: Checkpoint, ledgers: Sequence[SinkLedger], ledgers_there: Sequence[SinkLedger]
) -> None:
    """Refuse a copy that was made before the checkpoint's last batches: what they wrote would be missing there."""
    former = {one.prefix for one in ledgers if is_behind(one, checkpoint)}
    behind = {one.prefix for one in ledgers_there if is_behind(one, checkpoint)} - former
    if behind:
        raise UsageError(
            "the other place lacks batches that the checkpoint has committed: copy it while the query is stopped",
            prefixes=sorted(behind),
            committed=checkpoint.next_batch - 1,
        )


class _Renaming:
    """The offsets of a query whose topics have other names, or are elsewhere."""

    def __init__(self, checkpoint: Checkpoint, topics: Mapping[str, str], places: Places, elsewhere: Places) -> None:
        self._checkpoint = checkpoint
        self._topics = topics
        self._places = places
        self._elsewhere = elsewhere
        self._extents: dict[SourceKind, dict[str, TopicExtent]] = {}
        self._first_ids: dict[str, dict[str, str]] = {}
        self._check_names()
        self._check_kinds()
        for source in self._sources():
            self._first_ids[source] = self._new_ids(source)

    def changed_sources(self) -> list[str]:
        """The sources whose offsets are other ones."""
        found = ((source, self._checkpoint.newest(source)) for source in self._sources())
        return [source for source, known in found if known is not None and self._is_changed(known)]

    def position(self, batch_id: int, source: str) -> Position | None:
        """Where the source ends in a batch, in the new checkpoint."""
        found = self._checkpoint.position(batch_id, source)
        return None if found is None else self._moved(source, found)

    def source_files(self) -> dict[str, str]:
        """The files of sources whose offsets are other ones."""
        files: dict[str, str] = {}
        for source in self.changed_sources():
            if source in self._checkpoint.first_ids:
                files[f"{SOURCES}/{source}/{FIRST_IDS}"] = json.dumps(self._first_ids[source], separators=(",", ":"))
            if source in self._checkpoint.initial:
                initial = positions.read(self._checkpoint.initial[source], self._checkpoint.first_ids.get(source))
                is_read = self._checkpoint.start(source) == initial
                moved = self._moved(source, initial, is_checked=is_read)
                files[f"{SOURCES}/{source}/{INITIAL_OFFSETS}"] = f"\0v1\n{moved.text}"
        return files

    def _sources(self) -> list[str]:
        return list(dict.fromkeys([*self._checkpoint.sources, *self._checkpoint.initial]))

    def _is_changed(self, known: Position) -> bool:
        there = self._elsewhere.get(known.kind)
        is_same_log = there is not None and there.cluster_id is not None and there.cluster_id == known.cluster_id
        return (there is not None and not is_same_log) or any(name in self._topics for name in known.everywhere)

    def _check_names(self) -> None:
        newest = map(self._checkpoint.newest, self._sources())
        known = {name for one in newest if one is not None for name in one.everywhere}
        unknown = sorted(self._topics.keys() - known)
        if unknown:
            raise UsageError("the checkpoint has no offsets of these topics", topics=unknown, known=sorted(known))
        taken = sorted(known & set(self._topics.values()))
        if taken or len(set(self._topics.values())) < len(self._topics):
            raise UsageError("a new name belongs to another topic of the query: offsets would be mixed", taken=taken)

    def _check_kinds(self) -> None:
        known = [one for source in self._sources() if (one := self._checkpoint.newest(source))]
        there = [one for one in known if one.kind in self._elsewhere]
        if self._elsewhere and not there:
            raise UsageError("no source of the query reads such a place", sources=sorted({one.kind for one in known}))
        logs = {one.cluster_id for one in there if one.cluster_id is not None}
        if len(logs) > 1:
            raise UsageError("the query reads several logs, and only one other is named", cluster_ids=sorted(logs))

    def _new_ids(self, source: str) -> dict[str, str]:
        """The first ids of the source's topics in the new folder."""
        known = self._checkpoint.newest(source)
        ids = dict(self._checkpoint.first_ids.get(source, {}))
        if known is None or not self._is_changed(known):
            return ids
        moved = {name: self._topics.get(name, name) for name in known.everywhere if self._is_moved(known, name)}
        kept = {} if known.kind in self._elsewhere else {name: one for name, one in ids.items() if name not in moved}
        found = {new: self._extent(known, name).topic_id for name, new in moved.items()}
        return kept | {name: topic_id for name, topic_id in found.items() if topic_id is not None}

    def _is_moved(self, known: Position, name: str) -> bool:
        return name in self._topics or known.kind in self._elsewhere

    def _moved(self, source: str, known: Position, *, is_checked: bool = True) -> Position:
        if not self._is_changed(known):
            return known
        both = [self._moved_topics(known, topics, is_checked) for topics in (known.topics, known.absent)]
        there = self._elsewhere.get(known.kind)
        cluster_id = known.cluster_id if there is None else there.cluster_id
        moved = replace(known, topics=both[0], absent=both[1], cluster_id=cluster_id)
        return replace(moved, text=positions.written(moved, self._first_ids.get(source, {})))

    def _moved_topics(
        self, known: Position, topics: Mapping[str, TopicPosition], is_checked: bool
    ) -> dict[str, TopicPosition]:
        found: dict[str, TopicPosition] = {}
        for name, topic in topics.items():
            if not self._is_moved(known, name):
                found[name] = topic
                continue
            extent = self._extent(known, name)
            for partition, offset in topic.offsets.items() if is_checked else ():
                renewal.check_held(self._topics.get(name, name), partition, offset, extent.partitions.get(partition))
            topic_id = None if known.kind is SourceKind.SPARKS_KAFKA else extent.topic_id
            found[self._topics.get(name, name)] = TopicPosition(topic_id, topic.offsets)
        return found

    def _extent(self, known: Position, name: str) -> TopicExtent:
        place = self._elsewhere.get(known.kind) or self._places.get(known.kind)
        if place is None:
            raise renewal.no_place(known.kind)
        if known.kind not in self._elsewhere:
            renewal.check_log(known, place)
        extents, new = self._extents.setdefault(known.kind, {}), self._topics.get(name, name)
        if new not in extents:
            found = place.topics([new])
            if new not in found:
                raise UnknownTopicError(
                    "the topic does not exist where the query shall read it", topic=new, at=place.name
                )
            extents |= found
        return extents[new]
