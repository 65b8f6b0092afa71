"""Encodes and decodes the payloads that a log has once: its fixed znodes, and the znodes of holds and collection."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

from oncelog.znodes import fields, paths

FIRST_GENERATION: Final = 1


def of_new_log(cluster_id: str) -> Iterator[tuple[str, bytes]]:
    """The fixed znodes of a new log, with their data."""
    yield paths.FORMAT, encode_format(LogFormat(cluster_id))
    yield paths.CLOCK, b""
    yield paths.COMMITS, b""
    yield paths.PRODUCER_IDS, encode_producer_ids(ProducerIdBlocks(0))
    yield paths.GENERATION, encode_generation(FIRST_GENERATION)
    for folder in paths.FOLDERS:
        yield folder, b""


# /format, which makes a store a log


@dataclass(frozen=True, slots=True)
class LogFormat:
    """The payload of ``/format``.

    Attributes:
        cluster_id: id of the log; empty in the target of an unfinished copy.
        folder_mark: name of the file that marks the folder of the data as this log's; None until it is written.
        unfinished_copy: nonce of an unfinished copy of metadata into this store, which is not a log yet.
    """

    cluster_id: str = ""
    folder_mark: str | None = None
    unfinished_copy: str | None = None


def encode_format(found: LogFormat) -> bytes:
    if found.unfinished_copy is not None:
        return paths.encode({"unfinished_copy": found.unfinished_copy})
    mark = {} if found.folder_mark is None else {"folder": found.folder_mark}
    return paths.encode({"cluster_id": found.cluster_id, **mark})


def decode_format(data: bytes) -> LogFormat:
    """Raises CorruptDataError, UnsupportedFormatError: see `paths.decode`."""
    return paths.decode(paths.FORMAT, data, _format)


def _format(payload: dict[str, Any]) -> LogFormat:
    nonce = fields.maybe(fields.text, payload.get("unfinished_copy"))
    if nonce is not None:
        return LogFormat(unfinished_copy=nonce)
    return LogFormat(fields.text(payload["cluster_id"]), fields.maybe(fields.text, payload.get("folder")))


# Producer ids


class ProducerIdBlocks(NamedTuple):
    """The payload of ``/producer_ids``.

    Attributes:
        next: the first id that is not taken.
        nonce: identifies the process that took the last block.
    """

    next: int
    nonce: str | None = None


def encode_producer_ids(found: ProducerIdBlocks) -> bytes:
    return paths.encode({"next": found.next} | ({} if found.nonce is None else {"nonce": found.nonce}))


def decode_producer_ids(data: bytes) -> ProducerIdBlocks:
    """Raises CorruptDataError, UnsupportedFormatError: see `paths.decode`."""
    return paths.decode(
        paths.PRODUCER_IDS,
        data,
        lambda payload: ProducerIdBlocks(
            fields.number(payload["next"]), fields.maybe(fields.text, payload.get("nonce"))
        ),
    )


# Files


def encode_generation(generation: int) -> bytes:
    return paths.encode({"generation": generation})


@lru_cache(maxsize=4)
def decode_generation(data: bytes) -> int:
    """The generation, which every append reads. Raises CorruptDataError, UnsupportedFormatError: see `paths.decode`."""
    return paths.decode(paths.GENERATION, data, lambda payload: fields.number(payload["generation"]))


def encode_hold(writer: str) -> bytes:
    """The payload of a hold, with a description of its writer."""
    return paths.encode({"writer": writer})


def decode_hold(path: str, data: bytes) -> str:
    """Raises CorruptDataError, UnsupportedFormatError: see `paths.decode`."""
    return paths.decode(path, data, lambda payload: fields.text(payload["writer"]))


class Candidates(NamedTuple):
    """Unreferenced files that collections found.

    Attributes:
        found_ms: when each file was first found, in milliseconds of the store's time.
        parts: names of the znodes with more of them; only the first znode has any.
    """

    found_ms: Mapping[str, int]
    parts: Sequence[str] = ()


_PART = re.compile("[0-9a-f]{32}-[0-9]{1,2}")


def encode_candidates(found: Candidates, *, is_first: bool) -> bytes:
    """The payload of the first znode, or of one of the parts."""
    parts = {"parts": list(found.parts)} if is_first else {}
    return paths.encode({"found_ms": dict(found.found_ms), **parts})


def decode_candidates(path: str, data: bytes) -> Candidates:
    """Raises CorruptDataError, UnsupportedFormatError: see `paths.decode`."""
    return paths.decode(path, data, _candidates)


def _candidates(payload: dict[str, Any]) -> Candidates:
    if "files" in payload:  # an older form had the generation instead of the time, which is not enough
        return Candidates({})
    found_ms = {name: fields.number(found_ms) for name, found_ms in payload["found_ms"].items()}
    return Candidates(found_ms, fields.several(_part, payload.get("parts", [])))


def _part(value: Any) -> str:
    if _PART.fullmatch(fields.text(value)) is None:
        raise ValueError("the name of a part")
    return str(value)
