"""The collection generation, which tells orphans from files that a writer may still name, and the writers that hold it.

A file's name contains the generation that its writer read before it wrote the first byte. The step that first names a
file checks that the current generation is at most one higher; collection only removes unreferenced files that are at
least two generations old. So a suspended writer that wakes up late is refused, and cannot name a file that is gone.

A Spark job may last for hours. All its files have the generation from its start, and are named only at its end. Such a
writer has a znode from before it reads the generation until it is done: an open round or, for a write that Spark
planned and that has no round yet, a *hold*. A writer whose znode is younger than the last set of the generation has
read that generation or a later one, so the generation may be raised once more. Hence only writers that began earlier
keep it from being raised, and not forever: a round until its time-out, which its driver renews, and a hold, which is
never renewed, for limits.HOLD_TIMEOUT_MS.

On a high-latency store, a round is opened with its decision, or `limits.ROUND_OPENED_AFTER_MS` after its batch began.
The generation of its files was read at most `limits.RECENT_MS` before that. So such a round counts as having begun
`OPENED_LATE_MS` before its znode was created.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from oncelog import limits
from oncelog.batches.ledger import EMBEDDED
from oncelog.errors import CorruptDataError, StaleFileError
from oncelog.ports import Stat, ZnodeReader, ZnodeStore, ZnodeView
from oncelog.randomness import random_id
from oncelog.types import Outcome
from oncelog.znodes import paths, payloads
from oncelog.znodes.log_payloads import decode_generation, decode_hold, encode_generation, encode_hold
from oncelog.znodes.transact import in_parts, resolving
from oncelog.znodes.walking import paths_below

OPENED_LATE_MS = limits.RECENT_MS + 2 * limits.ROUND_OPENED_AFTER_MS
"""How long before its round a batch may have read the generation on a high-latency store; one try may fail."""

DATA = "data"
INDEX = "index"
MANIFESTS = "manifests"


# Names of files -------------------------------------------------------------------------------------------------------


def prefix(folder: str, generation: int) -> str:
    """The beginning of the names of new files of `generation`."""
    return f"{folder}/{generation:08d}-"


def new_name(folder: str, generation: int) -> str:
    return f"{prefix(folder, generation)}{random_id()}.avro"


_NAME = re.compile(r"[a-z]+/(\d+)-[^/]+")


def is_name(name: str) -> bool:
    """Whether this is a name that oncelog gives to files."""
    return _NAME.fullmatch(name) is not None


def generation_of(name: str) -> int:
    """The generation in a file's name. Raises a CorruptDataError if oncelog does not give such names."""
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
    """Check that every file may still be named: none may be older than the previous generation.

    Raises:
        StaleFileError: the generation was raised twice since the file was begun; write the data again.
    """
    oldest = current(reader) - 1
    for name in names:
        if generation_of(name) < oldest:
            raise StaleFileError(
                "a data file is older than the previous collection generation and may be gone; write the data again",
                file=name,
            )


def raised(store: ZnodeStore, now_ms: int, *, dry_run: bool = False) -> tuple[int, tuple[Hold, ...]]:
    """Raise the generation if it is old enough, and all writers that began before it are done.

    Args:
        now_ms: the store's time.
        dry_run: change nothing.

    Returns:
        the generation for a collection to use, and the writers that kept it from being raised.
    """
    with store.snapshot() as reader:
        # The generation is read first: all writers that began before its last set have a znode by then.
        present, stat = _read(reader)
        is_young = now_ms - stat.mtime_ms < limits.GENERATION_MIN_AGE_MS
        late_until_ms = stat.mtime_ms + OPENED_LATE_MS if store.joins_steps else 0
        held_by = () if is_young else _writers_before(reader, stat, now_ms, late_until_ms)
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


# Running writers ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hold:
    """A running writer.

    Attributes:
        owner: path of its znode.
        writer: a description for people.
        age_ms: time since it began.
    """

    owner: str
    writer: str
    age_ms: int


def hold(store: ZnodeStore, writer: str, stream: str = "") -> str:
    """Hold the current generation; the caller must read it only afterwards.

    Args:
        writer: a description for people.
        stream: a common name for all writes of one stream, which run one at a time.

    Returns:
        the path for `release`.
    """
    path = paths.hold(stream, random_id())

    def step(view: ZnodeView) -> None:
        if view.get(path) is None:  # otherwise an earlier try of this step succeeded
            view.create(path, encode_hold(writer))

    resolving(lambda: store.transact(step))
    return path


def release(store: ZnodeStore, held: Iterable[str]) -> None:
    """Release holds; it is no error if some are gone."""

    def release_some(some: Sequence[str]) -> None:
        def step(view: ZnodeView) -> None:
            for path in some:
                if view.get(path) is not None:
                    view.delete(path)

        resolving(lambda: store.transact(step))

    in_parts(list(held), release_some)


def release_overdue(store: ZnodeStore, now_ms: int) -> None:
    """Remove the holds of writers that died."""
    release(store, [hold.owner for hold, _ in _holds(store, now_ms) if hold.age_ms > limits.HOLD_TIMEOUT_MS])


def holds_of_stream(reader: ZnodeReader, held: str) -> list[str]:
    """`held`, and the holds that earlier writes of its stream left when they were stopped."""
    return [path for path in paths_below(reader, paths.HOLDS) if paths.is_of_one_stream(path, held)]


def _writers_before(reader: ZnodeReader, generation: Stat, now_ms: int, late_until_ms: int) -> tuple[Hold, ...]:
    """The running writers that began before the last set of the generation.

    Args:
        late_until_ms: a round that was opened before this time may have begun before that.
    """
    live = [(hold, zxid) for hold, zxid in _holds(reader, now_ms) if hold.age_ms <= limits.HOLD_TIMEOUT_MS]
    opened = [(hold, 0 if its.ctime_ms < late_until_ms else its.czxid) for hold, its in _open_rounds(reader, now_ms)]
    return tuple(hold for hold, czxid in (*opened, *live) if czxid < generation.mzxid)


def _holds(reader: ZnodeReader, now_ms: int) -> Iterator[tuple[Hold, int]]:
    for path in paths_below(reader, paths.HOLDS):
        znode = reader.get(path)
        if znode is not None:
            yield Hold(path, decode_hold(path, znode.data), now_ms - znode.stat.ctime_ms), znode.stat.czxid


def _open_rounds(reader: ZnodeReader, now_ms: int) -> Iterator[tuple[Hold, Stat]]:
    """The rounds that are open and not beyond their time-out: see `newest_rounds`."""
    for owner in EMBEDDED.newest_rounds(reader):
        znode = reader.get(owner)
        if znode is None:
            continue
        record = payloads.decode_owner(owner, znode.data)
        if record.outcome is Outcome.OPEN and now_ms - znode.stat.mtime_ms <= record.timeout_ms:
            writer = f"micro-batch {record.batch_id}"
            yield Hold(owner, writer, now_ms - znode.stat.ctime_ms), znode.stat
