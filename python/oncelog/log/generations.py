"""The collection generation, which tells orphans from files that are about to be named, and who holds it.

A file's name carries the generation that its writer read before the first byte. The znode write that first names a
file checks that the generation is at most one newer; collection removes unreferenced files only two generations back.
A suspended writer that wakes up late is refused instead of naming a file that is gone.

A job of Spark may last for hours; all its files bear the generation of its beginning, and are named only at its end.
Such a writer has a znode from before it reads the generation until it is done: an open round, or a *hold*, where Spark
plans a write that has no round yet. Assumption: a writer whose znode is younger than the generation's last set bears
that generation or a later one, which may be raised once more. Hence only older writers keep it from being raised, and
none for ever: a round by its time-out, which its driver renews, a hold, which nobody renews, for
limits.HOLD_TIMEOUT_MS.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from oncelog import limits
from oncelog.errors import CorruptDataError, StaleFileError
from oncelog.ledger.kinds import EMBEDDED
from oncelog.ports import Stat, ZnodeReader, ZnodeStore, ZnodeView
from oncelog.randomness import random_id
from oncelog.types import Outcome
from oncelog.znodes import paths, payloads
from oncelog.znodes.log_payloads import decode_generation, decode_hold, encode_generation, encode_hold
from oncelog.znodes.transact import in_parts, resolving
from oncelog.znodes.walking import paths_below

DATA = "data"
INDEX = "index"
MANIFESTS = "manifests"


# Names of files -------------------------------------------------------------------------------------------------------


def prefix(folder: str, generation: int) -> str:
    """What the name of a new file of `generation` begins with."""
    return f"{folder}/{generation:08d}-"


def new_name(folder: str, generation: int) -> str:
    return f"{prefix(folder, generation)}{random_id()}.avro"


_NAME = re.compile(r"[a-z]+/(\d+)-[^/]+")


def is_name(name: str) -> bool:
    """Whether oncelog gives such names."""
    return _NAME.fullmatch(name) is not None


def generation_of(name: str) -> int:
    """The generation in a file's name.

    Raises:
        CorruptDataError: not a name that oncelog gives.
    """
    found = _NAME.fullmatch(name)
    if found is None:
        raise CorruptDataError("not the name of a file of this log", file=name)
    return int(found[1])


# The generation -------------------------------------------------------------------------------------------------------


def current(reader: ZnodeReader) -> int:
    """The collection generation of the log."""
    return _read(reader)[0]


def _read(reader: ZnodeReader) -> tuple[int, Stat]:
    znode = reader.get(paths.GENERATION)
    if znode is None:
        raise CorruptDataError("the store holds no log", path=paths.GENERATION)
    return decode_generation(znode.data), znode.stat


def check_fresh(reader: ZnodeReader, names: Iterable[str]) -> None:
    """Raise unless every file may still be named: none is older than the previous generation.

    Raises:
        StaleFileError: the writer was suspended across two collections; write the data again.
    """
    oldest = current(reader) - 1
    for name in names:
        if generation_of(name) < oldest:
            raise StaleFileError("a data file waited across two collections and may be gone; write it again", file=name)


def raised(store: ZnodeStore, now_ms: int, *, dry_run: bool = False) -> tuple[int, tuple[Hold, ...]]:
    """Raise the generation if it is old enough and no writer from before it is at work.

    Args:
        store: of the log.
        now_ms: by the store's clock.
        dry_run: change nothing.

    Returns:
        the generation that a collection works at, and the writers for which it was not raised.
    """
    with store.snapshot() as reader:
        # The generation is read first: whoever began before it was set last has a znode by then.
        present, stat = _read(reader)
        is_young = now_ms - stat.mtime_ms < limits.GENERATION_MIN_AGE_MS
        held_by = () if is_young else _writers_before(reader, stat, now_ms)
    if is_young or held_by:
        return present, held_by
    if dry_run:
        return present + 1, ()

    def step(view: ZnodeView) -> int:
        found, its_stat = _read(view)
        if its_stat.version != stat.version:
            return found  # another collection raised it
        view.set(paths.GENERATION, encode_generation(present + 1))
        return present + 1

    return store.transact(step), ()


# Writers at work ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hold:
    """A writer at work.

    Attributes:
        owner: path of its znode.
        writer: what it is, in words.
        age_ms: since it began.
    """

    owner: str
    writer: str
    age_ms: int


def hold(store: ZnodeStore, writer: str, stream: str = "") -> str:
    """Hold the generation of now; the caller reads it afterwards.

    Args:
        store: of the log.
        writer: what it is, in words.
        stream: a name that all writes of one stream have, of which one is at work at a time.

    Returns:
        the path to `release`.
    """
    path = paths.hold(stream, random_id())

    def step(view: ZnodeView) -> None:
        if view.get(path) is None:  # else an earlier try of this step won
            view.create(path, encode_hold(writer))

    resolving(lambda: store.transact(step))
    return path


def release(store: ZnodeStore, held: Iterable[str]) -> None:
    """Give holds back; those that are gone already are no error."""

    def release_some(some: Sequence[str]) -> None:
        def step(view: ZnodeView) -> None:
            for path in some:
                if view.get(path) is not None:
                    view.delete(path)

        resolving(lambda: store.transact(step))

    in_parts(list(held), release_some)


def release_overdue(store: ZnodeStore, now_ms: int) -> None:
    """Remove the holds that writers left behind when they died."""
    release(store, [hold.owner for hold, _ in _holds(store, now_ms) if hold.age_ms > limits.HOLD_TIMEOUT_MS])


def holds_of_stream(reader: ZnodeReader, held: str) -> list[str]:
    """`held` and what earlier writes of its stream left behind when they were stopped."""
    return [path for path in paths_below(reader, paths.HOLDS) if paths.is_of_one_stream(path, held)]


def _writers_before(reader: ZnodeReader, generation: Stat, now_ms: int) -> tuple[Hold, ...]:
    """The writers that began before the generation was set last, and are at work."""
    live = [(hold, zxid) for hold, zxid in _holds(reader, now_ms) if hold.age_ms <= limits.HOLD_TIMEOUT_MS]
    return tuple(hold for hold, czxid in (*_open_rounds(reader, now_ms), *live) if czxid < generation.mzxid)


def _holds(reader: ZnodeReader, now_ms: int) -> Iterator[tuple[Hold, int]]:
    for path in paths_below(reader, paths.HOLDS):
        znode = reader.get(path)
        if znode is not None:
            yield Hold(path, decode_hold(path, znode.data), now_ms - znode.stat.ctime_ms), znode.stat.czxid


def _open_rounds(reader: ZnodeReader, now_ms: int) -> Iterator[tuple[Hold, int]]:
    """The rounds that are open and not overdue: see `newest_rounds`."""
    for owner in EMBEDDED.newest_rounds(reader):
        znode = reader.get(owner)
        if znode is None:
            continue
        record = payloads.decode_owner(owner, znode.data)
        if record.outcome is Outcome.OPEN and now_ms - znode.stat.mtime_ms <= record.timeout_ms:
            writer = f"micro-batch {record.batch_id}"
            yield Hold(owner, writer, now_ms - znode.stat.ctime_ms), znode.stat.czxid
