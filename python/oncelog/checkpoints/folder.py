"""Reads the folder of a checkpoint, in a file system of this machine. It writes nothing.

    metadata                          the query's id
    offsets/<n>                       where each source ends in batch n; written before the batch runs
    commits/<n>                       batch n is done
    sources/<m>/0                     a Kafka source's initial offsets
    sources/<m>/oncelog-topic-ids*    the first ids of its topics
    state/<operator>                  a stateful operator's state

Beside a file may be its checksum, ``.<n>.crc``. Spark checks it, so a file that was edited by hand stops a query.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from oncelog.checkpoints import positions
from oncelog.checkpoints.positions import Position
from oncelog.errors import CorruptDataError, UsageError
from oncelog.folders import absolute
from oncelog.spark.kit import offset_log
from oncelog.spark.kit.offset_log import Entry
from oncelog.znodes import paths

METADATA, OFFSETS, COMMITS, SOURCES, STATE = "metadata", "offsets", "commits", "sources", "state"
INITIAL_OFFSETS = "0"
FIRST_IDS = "oncelog-topic-ids.json"

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")
_FILE_SCHEME = re.compile("^file:(//[^/]*)?")
"""Spark takes everything after this scheme literally, including spaces and percent signs."""

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
        root: the folder.
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

    root: Path
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
        """Where the batch that a restart runs again ends; None if it will be planned anew."""
        return self.position(self.next_batch, source) if self.runs_again else None

    def newest(self, source: str) -> Position | None:
        """Where a source stands, as far as it is planned."""
        return self.end(source) or self.start(source)


def folder_of(location: str) -> Path:
    """The path of a checkpoint's folder.

    Raises:
        UsageError: it is not a folder of this machine.
    """
    if not location.startswith("file:") and (scheme := _SCHEME.match(location)):
        raise UsageError(
            "this command reads checkpoints in a folder of this machine: copy it there with the tools of its store "
            "(hdfs dfs -get, aws s3 cp --recursive), while the query is stopped",
            folder=location,
            scheme=scheme[1],
        )
    return absolute(_FILE_SCHEME.sub("", location) if location.startswith("file:") else location)


def read(location: str) -> Checkpoint:
    """Read a checkpoint.

    Raises:
        UsageError: there is none, or this user may not read it.
    """
    root = folder_of(location)
    try:
        return _read(root)
    except OSError as problem:
        raise UsageError("the checkpoint cannot be read", folder=str(root), problem=str(problem)) from problem


def _read(root: Path) -> Checkpoint:
    if not (root / METADATA).is_file() and not (root / OFFSETS).is_dir():
        raise UsageError("this is not the folder of a checkpoint: it has no metadata and no offsets", folder=str(root))
    damaged = [*_several(root), *_wrong_checksums(root)]
    query_id = _query_id(root, damaged)
    entries = _entries(root, damaged)
    commits = _commits(root, damaged)
    planned, committed = numbers(root / OFFSETS), numbers(root / COMMITS)
    _check_numbers(planned, committed, damaged)
    first_ids, initial = {}, {}
    for folder in _folders(root / SOURCES):
        ids = _first_ids(folder, root, damaged)
        if ids is not None:
            first_ids[folder.name] = ids
        text = _initial(folder, root, damaged)
        if text is not None:
            initial[folder.name] = text
    _check_offsets(root, entries, first_ids, damaged)
    return Checkpoint(
        root=root,
        query_id=query_id,
        planned=max(planned, default=None),
        committed=max(committed, default=None) if commits else None,
        entries=entries,
        initial=initial,
        first_ids=first_ids,
        operators=tuple(folder.name for folder in _folders(root / STATE)),
        damaged=tuple(damaged),
        newest_ms=_newest_ms(root),
    )


def batches(root: Path) -> tuple[int | None, int | None]:
    """The newest batches in ``offsets`` and ``commits``."""
    return max(numbers(root / OFFSETS), default=None), max(numbers(root / COMMITS), default=None)


# Files ----------------------------------------------------------------------------------------------------------------


def _text(file: Path) -> str:
    return file.read_bytes().decode(errors="replace")


def numbers(folder: Path) -> list[int]:
    """The batches that have a file in a folder, in order."""
    names = [file.name for file in folder.iterdir()] if folder.is_dir() else []
    return sorted(int(name) for name in names if paths.is_number(name))


def _folders(folder: Path) -> list[Path]:
    names = [one.name for one in folder.iterdir() if one.is_dir()] if folder.is_dir() else []
    return [folder / name for name in offset_log.in_order(names)]


def _newest_ms(root: Path) -> int:
    return max((file.stat().st_mtime_ns // 1_000_000 for file in _logs(root) if file.exists()), default=0)


def _logs(root: Path) -> list[Path]:
    """The files that Spark writes of the query and its batches."""
    return [root / METADATA, *(root / name / str(n) for name in (OFFSETS, COMMITS) for n in numbers(root / name))]


def _query_id(root: Path, damaged: list[DamagedFile]) -> str | None:
    file = root / METADATA
    if not file.is_file():
        damaged.append(DamagedFile(Damage.MISSING, METADATA, "Spark would give the query a new id"))
        return None
    try:
        query_id = json.loads(_text(file))["id"]
        if isinstance(query_id, str):
            return query_id
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    damaged.append(DamagedFile(Damage.TORN, METADATA, "it does not name the query's id"))
    return None


def _entries(root: Path, damaged: list[DamagedFile]) -> dict[int, Entry]:
    found: dict[int, Entry] = {}
    for number in numbers(root / OFFSETS):
        name = f"{OFFSETS}/{number}"
        try:
            entry = offset_log.parse(_text(root / name), name)
        except CorruptDataError:
            entry = None
        if entry is None or not _is_object(entry.metadata) or not all(map(_is_whole, entry.offsets.values())):
            damaged.append(DamagedFile(Damage.TORN, name, "it ends too early, or is no file of Spark's offset log"))
        elif found and entry.version == "v1" and len(entry.offsets) < len(found[max(found)].offsets):
            damaged.append(DamagedFile(Damage.TORN, name, "it lacks sources that the batch before has"))
        else:
            found[number] = entry
    return found


def _commits(root: Path, damaged: list[DamagedFile]) -> list[int]:
    known = numbers(root / COMMITS)
    for number in known:
        name = f"{COMMITS}/{number}"
        version, _, metadata = _text(root / name).partition("\n")
        if not re.fullmatch("v[0-9]+", version) or not _is_object(metadata):
            damaged.append(DamagedFile(Damage.TORN, name, "it ends too early, or is no file of Spark's commit log"))
    return known


def _first_ids(folder: Path, root: Path, damaged: list[DamagedFile]) -> dict[str, str] | None:
    """The ids in all files of a source; None if there is none, so that oncelog-kafka never read here."""
    stem, found = FIRST_IDS.removesuffix(".json"), None
    number = 0
    while (file := folder / (FIRST_IDS if number == 0 else f"{stem}-{number}.json")).is_file():
        ids = positions.topic_ids(_text(file))
        if ids is None:
            damaged.append(DamagedFile(Damage.TORN, str(file.relative_to(root)), "it is not a JSON object of ids"))
        found = {**(found or {}), **(ids or {})}
        number += 1
    return found


def _initial(folder: Path, root: Path, damaged: list[DamagedFile]) -> str | None:
    file = folder / INITIAL_OFFSETS
    if not file.is_file():
        return None
    first, (version, _, text) = _text(file)[:1], _text(file)[1:].partition("\n")
    if first not in {"", _KAFKAS_FIRST}:
        return None  # another source's file
    if version == "v1" and positions.kafka_offsets(text) is not None:
        return text
    damaged.append(DamagedFile(Damage.TORN, str(file.relative_to(root)), "it does not name initial offsets"))
    return None


def _check_offsets(
    root: Path, entries: dict[int, Entry], first_ids: Mapping[str, Mapping[str, str]], damaged: list[DamagedFile]
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


def _several(root: Path) -> Iterator[DamagedFile]:
    others = sorted(file.name for file in root.iterdir() if file.name.startswith(METADATA) and file.name != METADATA)
    if others:
        yield DamagedFile(Damage.SEVERAL, METADATA, f"there are others beside it: {', '.join(others)}")


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


def _wrong_checksums(root: Path) -> Iterator[DamagedFile]:
    for file in _logs(root):
        sums = file.with_name(f".{file.name}.crc")
        if file.is_file() and sums.is_file() and not _fits(file.read_bytes(), sums.read_bytes()):
            name = str(file.relative_to(root))
            yield DamagedFile(Damage.EDITED, name, f"{sums.name} beside it has another checksum")


def _fits(data: bytes, sums: bytes) -> bool:
    """Whether Hadoop's checksums fit: a header, the number of bytes that each is of, and the checksums."""
    if not sums.startswith(_CRC_HEADER) or len(sums) < 8:
        return False
    each = int.from_bytes(sums[4:8], "big")
    if each <= 0:
        return False
    wanted = [zlib.crc32(data[at : at + each]).to_bytes(4, "big") for at in range(0, len(data), each)]
    return sums[8:] == b"".join(wanted)
