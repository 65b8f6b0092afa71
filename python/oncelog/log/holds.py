"""Who keeps the collection generation from being raised: writers whose files bear it and are named only at their end.

A job of Spark may last for hours; all its files bear the generation of its beginning. Such a writer has a znode from
before it reads the generation until it is done: an open round, or a *hold*, where Spark plans a write that has no round
yet. Assumption: a writer whose znode is younger than the generation's last set bears that generation or a later one,
which may be raised once more. Hence only older writers hold, and none for ever: a round by its time-out, which its
driver renews, a hold, which nobody renews, for limits.HOLD_TIMEOUT_MS.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from oncelog import limits
from oncelog.ledger.kinds import EMBEDDED
from oncelog.ports import Stat, ZnodeReader, ZnodeStore, ZnodeView
from oncelog.randomness import random_id
from oncelog.types import Outcome
from oncelog.znodes import paths, payloads
from oncelog.znodes.log_payloads import decode_hold, encode_hold
from oncelog.znodes.transact import in_parts, resolving
from oncelog.znodes.walking import paths_below


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


def take(store: ZnodeStore, writer: str, stream: str = "") -> str:
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


def of_stream(reader: ZnodeReader, held: str) -> list[str]:
    """`held` and what earlier writes of its stream left behind when they were stopped."""
    return [path for path in paths_below(reader, paths.HOLDS) if paths.is_of_one_stream(path, held)]


def release_overdue(store: ZnodeStore, now_ms: int) -> None:
    """Remove what writers that died left behind."""
    release(store, [hold.owner for hold, _ in _holds(store, now_ms) if hold.age_ms > limits.HOLD_TIMEOUT_MS])


def before(reader: ZnodeReader, generation: Stat, now_ms: int) -> tuple[Hold, ...]:
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
