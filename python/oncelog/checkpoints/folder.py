"""Reads the folder of a checkpoint. It writes nothing.

    metadata                          the query's id
    offsets/<n>                       where each source ends in batch n; written before the batch runs
    commits/<n>                       batch n is done
    sources/<m>/0                     a Kafka source's initial offsets
    sources/<m>/oncelog-topic-ids*    the first ids of its topics
    state/<operator>                  a stateful operator's state

A file may have a checksum next to it, ``.<n>.crc``. Spark checks it, so a file that was edited by hand stops a query.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from oncelog.checkpoints import positions
from oncelog.checkpoints.positions import Position
from oncelog.checkpoints.storage import Storage, storage_of
from oncelog.errors import CorruptDataError, UsageError
from oncelog.spark.kit import offset_log
from oncelog.spark.kit.offset_log import Entry
from oncelog.znodes import paths

METADATA, OFFSETS, COMMITS, SOURCES, STATE = "metadata", "offsets", "commits", "sources", "state"
INITIAL_OFFSETS = "0"
FIRST_IDS = "oncelog-topic-ids.json"

_READ = re.compile(
    rf"{METADATA}|\.{METADATA}\.crc|({OFFSETS}|{COMMITS})/(\d+|\.\d+\.crc)"
    rf"|{SOURCES}/[^/]+/({INITIAL_OFFSETS}|{FIRST_IDS.removesuffix('.json')}[^/]*)"
)
"""The files that are read here."""

_CRC_HEADER = b"crc\0"
_KAFKAS_FIRST = "\0"
"""The first byte of the file with a Kafka source's initial offsets; other sources have files of the same name."""


class Damage(StrEnum):
    """What can be wrong with a file by itself."""

    TORN = "torn"
    EDITED = "edited"
    MISSING = "missing"
    SEVERAL = "several"


@dataclass(frozen=True, slots=True)
class DamagedFile:
    """A file of the checkpoint that Spark cannot read, or misses."""

    damage: Damage
    file: str
    detail: str


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a checkpoint's folder says.

    Attributes:
        storage: the folder.
        names: its files.
        query_id: None if the file with it is missing or torn.
        planned: the newest batch in ``offsets``, also if its file is torn; None before the first one.
        committed: the newest batch in ``commits``.
        entries: batches whose file can be read, oldest first.
        initial: the initial offsets of Kafka's sources, by source.
        first_ids: the first ids of their topics, by source, as far as oncelog-kafka has read them.
        operators: stateful operators that have a folder.
        damaged: files that are not as Spark writes them.
        newest_ms: when the newest file was written, in milliseconds since 1970.
    """

    storage: Storage
    names: frozenset[str]
    query_id: str | None
    planned: int | None
    committed: int | None
    entries: Mapping[int, Entry]
    initial: Mapping[str, str]
    first_ids: Mapping[str, Mapping[str, str]]
    operators: tuple[str, ...]
    damaged: tuple[DamagedFile, ...]
    newest_ms: int

    @property
    def runs_again(self) -> bool:
        """Whether a restart runs the newest planned batch again."""
        return self.planned is not None and (self.committed is None or self.committed < self.planned)

    @property
    def next_batch(self) -> int:
        """The batch with which a restart begins."""
        if self.planned is None:
            return 0
        return self.planned if self.runs_again else self.planned + 1

    @property
    def sources(self) -> list[str]:
        """The query's sources, by position or by name."""
        return offset_log.in_order({name for entry in self.entries.values() for name in entry.offsets})

    @property
    def known_sources(self) -> list[str]:
        """The same; before the first batch those that have initial offsets."""
        return self.sources or list(self.initial)

    def position(self, batch_id: int, source: str) -> Position | None:
        """Where a source ends in a batch; None if it has no offset there, or the batch's file is missing or torn."""
        entry = self.entries.get(batch_id)
        text = None if entry is None else entry.offsets.get(source)
        return None if text is None else positions.read(text, self.first_ids.get(source))

    def start(self, source: str) -> Position | None:
        """Where a restart begins to read a source: the initial offset if there is no batch before."""
        found = self.position(self.next_batch - 1, source)
        if found is None and source in self.initial:
            return positions.read(self.initial[source], self.first_ids.get(source))
        return found

    def end(self, source: str) -> Position | None:
        """Where the batch that a restart runs again ends; None if it will be planned again."""
        return self.position(self.next_batch, source) if self.runs_again else None

    def newest(self, source: str) -> Position | None:
        """Where a source stands, as far as it is planned."""
        return self.end(source) or self.start(source)


def read(location: str) -> Checkpoint:
    """Read a checkpoint.

    Args:
        location: its folder: see `storage_of`.

    Raises:
        UsageError: there is none, or this user may not read it.
    """
    storage = storage_of(location)
    try:
        return _read(storage)
    except OSError as problem:
        raise UsageError("the checkpoint cannot be read", folder=storage.location, problem=str(problem)) from problem


def _read(storage: Storage) -> Checkpoint:
    times = storage.times()
    asked = [name for name in times if _READ.fullmatch(name)]
    read = zip(asked, storage.read(asked), strict=True)
    files = {name: data for name, data in read if data is not None}
    for name in set(asked) - set(files):
        del times[name]  # the query has removed it meanwhile
    planned, committed = numbers(times, OFFSETS), numbers(times, COMMITS)
    if METADATA not in times and not planned:
        raise UsageError(
            "this is not the folder of a checkpoint: it has no metadata and no offsets", folder=storage.location
        )
    logs = [METADATA, *(f"{OFFSETS}/{n}" for n in planned), *(f"{COMMITS}/{n}" for n in committed)]
    damaged = [*_several(times), *_wrong_checksums(files, logs)]
    query_id = _query_id(files, damaged)
    entries = _entries(files, planned, damaged)
    _check_commits(files, committed, damaged)
    _check_numbers(planned, committed, damaged)
    first_ids, initial = {}, {}
    for source in _folders(times, SOURCES):
        ids = _first_ids(files, source, damaged)
        if ids is not None:
            first_ids[source] = ids
        text = _initial(files, source, damaged)
        if text is not None:
            initial[source] = text
    _check_offsets(entries, first_ids, damaged)
    return Checkpoint(
        storage=storage,
        names=frozenset(times),
        query_id=query_id,
        planned=max(planned, default=None),
        committed=max(committed, default=None),
        entries=entries,
        initial=initial,
        first_ids=first_ids,
        operators=tuple(_folders(times, STATE)),
        damaged=tuple(damaged),
        newest_ms=max((times[name] for name in logs if name in times), default=0),
    )


def batches(names: Iterable[str]) -> tuple[int | None, int | None]:
    """The newest batches in ``offsets`` and ``commits``."""
    return max(numbers(names, OFFSETS), default=None), max(numbers(names, COMMITS), default=None)


def numbers(names: Iterable[str], folder: str) -> list[int]:
    """The batches that have a file in a folder, in order."""
    parts = (name.rpartition("/") for name in names)
    return sorted(int(file) for above, _, file in parts if above == folder and paths.is_number(file))


def checksums_of(name: str) -> str:
    """The name of the file with the checksums of a file."""
    folder, slash, file = name.rpartition("/")
    return f"{folder}{slash}.{file}.crc"


# Files ----------------------------------------------------------------------------------------------------------------


def _folders(names: Iterable[str], above: str) -> list[str]:
    parts = (name.split("/") for name in names)
    return offset_log.in_order({one[1] for one in parts if one[0] == above and len(one) > 2})


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


def _query_id(files: Mapping[str, bytes], damaged: list[DamagedFile]) -> str | None:
    if METADATA not in files:
        damaged.append(DamagedFile(Damage.MISSING, METADATA, "Spark would give the query a new id"))
        return None
    try:
        query_id = json.loads(_text(files[METADATA]))["id"]
        if isinstance(query_id, str):
            return query_id
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    damaged.append(DamagedFile(Damage.TORN, METADATA, "it does not name the query's id"))
    return None


def _entries(files: Mapping[str, bytes], planned: list[int], damaged: list[DamagedFile]) -> dict[int, Entry]:
    found: dict[int, Entry] = {}
    for number in planned:
        name = f"{OFFSETS}/{number}"
        try:
            entry = offset_log.parse(_text(files[name]), name)
        except CorruptDataError:
            entry = None
        if entry is None or not _is_object(entry.metadata) or not all(map(_is_whole, entry.offsets.values())):
            damaged.append(DamagedFile(Damage.TORN, name, "it ends too early, or is no file of Spark's offset log"))
        elif found and entry.version == "v1" and len(entry.offsets) < len(found[max(found)].offsets):
            damaged.append(DamagedFile(Damage.TORN, name, "it lacks sources that the batch before has"))
        else:
            found[number] = entry
    return found


def _check_commits(files: Mapping[str, bytes], committed: list[int], damaged: list[DamagedFile]) -> None:
    for number in committed:
        name = f"{COMMITS}/{number}"
        version, _, metadata = _text(files[name]).partition("\n")
        if not re.fullmatch("v[0-9]+", version) or not _is_object(metadata):
            damaged.append(DamagedFile(Damage.TORN, name, "it ends too early, or is no file of Spark's commit log"))


def _first_ids(files: Mapping[str, bytes], source: str, damaged: list[DamagedFile]) -> dict[str, str] | None:
    """The ids in all files of a source; None if there is none, so that oncelog-kafka never read here."""
    stem, found = FIRST_IDS.removesuffix(".json"), None
    number = 0
    while (name := f"{SOURCES}/{source}/" + (FIRST_IDS if number == 0 else f"{stem}-{number}.json")) in files:
        ids = positions.topic_ids(_text(files[name]))
        if ids is None:
            damaged.append(DamagedFile(Damage.TORN, name, "it is not a JSON object of ids"))
        found = {**(found or {}), **(ids or {})}
        number += 1
    return found


def _initial(files: Mapping[str, bytes], source: str, damaged: list[DamagedFile]) -> str | None:
    name = f"{SOURCES}/{source}/{INITIAL_OFFSETS}"
    if name not in files:
        return None
    whole = _text(files[name])
    first, (version, _, text) = whole[:1], whole[1:].partition("\n")
    if first not in {"", _KAFKAS_FIRST}:
        return None  # another source's file
    if version == "v1" and positions.kafka_offsets(text) is not None:
        return text
    damaged.append(DamagedFile(Damage.TORN, name, "it does not name initial offsets"))
    return None


def _check_offsets(
    entries: dict[int, Entry], first_ids: Mapping[str, Mapping[str, str]], damaged: list[DamagedFile]
) -> None:
    """Move batches with an offset of the log that cannot be read from `entries` to `damaged`."""
    for number, entry in list(entries.items()):
        try:
            for source, text in entry.offsets.items():
                if text is not None:
                    positions.read(text, first_ids.get(source))
        except CorruptDataError as problem:
            del entries[number]
            damaged.append(DamagedFile(Damage.TORN, f"{OFFSETS}/{number}", str(problem.message)))


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _is_whole(text: str | None) -> bool:
    return text is None or (text != "" and (not text.startswith(("{", "[")) or _is_json(text)))


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


# Together -------------------------------------------------------------------------------------------------------------


def _several(names: Iterable[str]) -> Iterator[DamagedFile]:
    others = sorted(name for name in names if "/" not in name and name.startswith(METADATA) and name != METADATA)
    if others:
        yield DamagedFile(Damage.SEVERAL, METADATA, f"there are others next to it: {', '.join(others)}")


def _check_numbers(planned: list[int], committed: list[int], damaged: list[DamagedFile]) -> None:
    """Spark needs the newest batch and the one before it, and a commit for the latter."""
    if not planned:
        if committed:
            detail = f"batch {committed[-1]} is committed, and no batch is planned"
            damaged.append(DamagedFile(Damage.MISSING, f"{OFFSETS}/{committed[-1]}", detail))
        return
    newest, done = planned[-1], committed[-1] if committed else -1
    if newest > 0 and newest - 1 not in planned:
        detail = f"batch {newest} begins where batch {newest - 1} ended"
        damaged.append(DamagedFile(Damage.MISSING, f"{OFFSETS}/{newest - 1}", detail))
    if done < newest - 1:
        detail = f"batch {newest} is planned, and the newest committed batch is " + (str(done) if committed else "none")
        damaged.append(DamagedFile(Damage.MISSING, f"{COMMITS}/{newest - 1}", detail))
    if done > newest:
        detail = f"batch {done} is committed, and the newest planned batch is {newest}"
        damaged.append(DamagedFile(Damage.MISSING, f"{OFFSETS}/{done}", detail))


def _wrong_checksums(files: Mapping[str, bytes], logs: Iterable[str]) -> Iterator[DamagedFile]:
    for name in logs:
        sums = checksums_of(name)
        if name in files and sums in files and not _fits(files[name], files[sums]):
            detail = f"{sums.rpartition('/')[2]} next to it has another checksum"
            yield DamagedFile(Damage.EDITED, name, detail)


def _fits(data: bytes, sums: bytes) -> bool:
    """Whether Hadoop's checksums fit: a header, the number of bytes that each is of, and the checksums."""
    if not sums.startswith(_CRC_HEADER) or len(sums) < 8:
        return False
    each = int.from_bytes(sums[4:8], "big")
    if each <= 0:
        return False
    wanted = [zlib.crc32(data[at : at + each]).to_bytes(4, "big") for at in range(0, len(data), each)]
    return sums[8:] == b"".join(wanted)
