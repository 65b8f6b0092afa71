"""`transact`: runs a step on a snapshot, commits its reads and writes as one multi, and runs it again on a conflict.

A store gets it from its base class `Transacting`. It is the only caller of `multi` in oncelog.

A znode that is deleted and created again starts at version 0, so an old version may come back, and a step that read the
old znode would pass its check. Assumptions: a znode that can be created again stays as a tombstone for
limits.TOMBSTONE_MS. A step writes only while its snapshot is younger than its deadline, which is far shorter; this is
checked under the store's lock, since a process may be suspended anywhere before. Hence no version comes back in time.

The first run of a step may read a moment that has passed (`ports.ZnodeStore.recent`), limits.RECENT_MS ago at most. It
counts only if it writes, and is committed: then all that it read was still so at that time. What it returns without
writing, or raises, nobody has compared, so that the step is run again on a snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from oncelog.errors import (
    CorruptDataError,
    InvariantViolation,
    OutcomeUnknownError,
    RetriableError,
    StepTooLargeError,
    TransactConflictError,
    ensure,
)
from oncelog.limits import CONFLICT_PAUSE_MAX_MS, TOMBSTONE_MS, TRANSACT_DEADLINE_MS
from oncelog.ports import ANY_VERSION, Op, Set, Stat, Timing, Watch, ZnodeReader, ZnodeStore, ZnodeView
from oncelog.znodes import metering
from oncelog.znodes.clock import both_clocks
from oncelog.znodes.errors import MultiFailedError, Refusal, StaleStepError
from oncelog.znodes.view import BufferedView
from oncelog.znodes.watching import Looks

T = TypeVar("T")
P = TypeVar("P")

IsFresh = Callable[[], bool]
ReadSet = dict[str, Stat]

UNKNOWN_OUTCOME_ATTEMPTS = 5
"""How often a step is run if its answers are lost."""


def always_fresh() -> bool:
    """For a multi that does not depend on earlier reads."""
    return True


def ensure_fresh(is_fresh: IsFresh) -> None:
    """Refuse the multi of a step whose reads are too old.

    Raises:
        StaleStepError: they are.
    """
    if not is_fresh():
        raise StaleStepError("the step's reads are too old for it to write")


class Transacting:
    """The base class of all stores: implements `transact` with the store's other methods."""

    joins_steps = False

    def transact(self: ZnodeStore, step: Callable[[ZnodeView], T], *, deadline_ms: int = TRANSACT_DEADLINE_MS) -> T:
        """Run `step` and commit it; see `ports.ZnodeStore.transact`."""
        with metering.step():
            return _transact(self, step, deadline_ms)

    def recent(self) -> AbstractContextManager[ZnodeReader] | None:
        """None: only a snapshot will do. See `ports.ZnodeStore.recent`."""
        return None

    def watch(self: ZnodeStore) -> AbstractContextManager[Watch]:
        """Looks every limits.LOOK_MS; see `ports.ZnodeStore.watch`."""
        return nullcontext(Looks(self.timing.clock))


@contextmanager
def recently(store: ZnodeStore) -> Iterator[ZnodeReader]:
    """Reads of `store.recent()`, or else of a snapshot: of one moment if those are atomic."""
    with store.recent() or store.snapshot() as reader:
        yield reader


def _transact(store: ZnodeStore, step: Callable[[ZnodeView], T], deadline_ms: int) -> T:
    ensure(0 < deadline_ms < TOMBSTONE_MS // 2, "a step ends long before a tombstone does", deadline_ms=deadline_ms)
    timing = store.timing
    began_ms = timing.clock.monotonic_ms()
    attempts = 0
    refused: ReadSet | None = None
    if (done := _on_recent_reads(store, step, deadline_ms)) is not None:
        return done.believed()
    while True:
        attempts += 1
        is_fresh = _freshness(timing, deadline_ms)
        with store.snapshot() as reader:
            view = BufferedView(reader, reads_are_atomic=store.reads_are_atomic)
            result = _Result.of(step, view)
        conflict = _commit(store, view, result, is_fresh)
        if conflict is None:
            return result.believed()
        if store.reads_are_atomic and refused is not None and refused == conflict.refused:
            raise CorruptDataError(
                "the znode store is damaged: it refused a step twice, although nothing that the step read had changed "
                "in between; restore it from a backup",
                path=conflict.path,
            )
        refused = conflict.refused
        pause_ms = round(timing.jitter() * CONFLICT_PAUSE_MAX_MS)
        if timing.clock.monotonic_ms() + pause_ms - began_ms >= deadline_ms:
            raise TransactConflictError(
                "other writers kept changing what this step reads, until its deadline; make the same call again",
                path=conflict.path,
                attempts=attempts,
                deadline_ms=deadline_ms,
            )
        if pause_ms:
            timing.clock.sleep_ms(pause_ms)


def _on_recent_reads(store: ZnodeStore, step: Callable[[ZnodeView], T], deadline_ms: int) -> _Result[T] | None:
    """Run and commit a step on reads that cost nothing; None if it must be run on a snapshot."""
    is_fresh = _freshness(store.timing, deadline_ms)
    recent = store.recent()
    if recent is None:
        return None
    with recent as reader:
        view = BufferedView(reader, reads_are_atomic=True)
        result = _Result.of(step, view)
    if result.error is not None or not view.has_writes:
        return None
    return result if _commit(store, view, result, is_fresh) is None else None


def resolving(step: Callable[[], T], *, also: tuple[type[RetriableError], ...] = ()) -> T:
    """Run an idempotent step, and again while its outcome is unknown (invariant I5).

    Args:
        also: other errors after which to run it again.
    """
    return resolving_told(lambda is_repeated: step(), also=also)


def resolving_told(step: Callable[[bool], T], *, also: tuple[type[RetriableError], ...] = ()) -> T:
    """Like `resolving`, but the step's argument says whether an earlier run of it may have succeeded."""
    unknown: OutcomeUnknownError | None = None
    for left in reversed(range(UNKNOWN_OUTCOME_ATTEMPTS)):
        try:
            return step(unknown is not None)
        except OutcomeUnknownError as error:
            unknown = error
        except RetriableError as error:
            # Nothing was written by this run, but an earlier one may have succeeded.
            if not left or not isinstance(error, also):
                raise unknown or error from None
    raise unknown or OutcomeUnknownError("the step was not answered")


def in_parts(parts: Sequence[P], run: Callable[[Sequence[P]], T]) -> list[T]:
    """Run a step for all `parts`. If it is too large, run it for each half, one after the other.

    The size of a step depends on what others wrote into the znodes that it sets, so it is not known before.

    Args:
        parts: in the order in which they are done.
        run: runs one idempotent step for some of them; it is never called without parts.

    Raises:
        StepTooLargeError: a single part is too large. Earlier parts are done, as after any other error of `run`.
    """
    if not parts:
        return []
    try:
        return [run(parts)]
    except StepTooLargeError:
        middle = len(parts) // 2
        if not middle:
            raise
    return in_parts(parts[:middle], run) + in_parts(parts[middle:], run)


@dataclass(frozen=True, slots=True)
class _Result(Generic[T]):
    """What a run of a step returned or raised. It counts only after the run's checks held."""

    value: T | None
    error: Exception | None

    @classmethod
    def of(cls, step: Callable[[ZnodeView], T], view: ZnodeView) -> _Result[T]:
        try:
            return cls(step(view), None)
        except Exception as error:  # noqa: BLE001 - it is raised again once the reads that led to it are confirmed
            return cls(None, error)

    def believed(self) -> T:
        if self.error is not None:
            raise self.error
        return cast(T, self.value)


@dataclass(frozen=True, slots=True)
class _Conflict:
    """Why a run was not committed: others changed `path` meanwhile, or the run took too long."""

    path: str
    refused: ReadSet | None = None
    """The run's read set, if the store refused its multi."""


def _commit(store: ZnodeStore, view: BufferedView, result: _Result[T], is_fresh: IsFresh) -> _Conflict | None:
    """Commit a run's reads and writes; returns None if that succeeded."""
    if view.torn_path is not None:
        return _Conflict(view.torn_path)
    writes = result.error is None and view.has_writes
    if store.reads_are_atomic and not writes:
        return None
    ops = view.ops() if writes else view.checks()
    if not ops:
        return None
    try:
        with metering.write():
            store.multi(ops, is_fresh=is_fresh)
    except StaleStepError:
        return _Conflict(ops[0].path)
    except MultiFailedError as failure:
        _ensure_is_conflict(failure, ops)
        return _Conflict(failure.path, refused=view.read_set())
    return None


def _ensure_is_conflict(failure: MultiFailedError, ops: Sequence[Op]) -> None:
    """Raise if the failure is no conflict but a step that can never succeed; relies on the order of `ops()`."""
    op = ops[failure.index]
    if failure.refusal is Refusal.NOT_EMPTY:
        raise InvariantViolation(f"a step deletes a znode that has children [path={op.path!r}]") from failure
    if isinstance(op, Set) and op.version == ANY_VERSION:
        raise InvariantViolation(f"a blind set needs an existing znode [path={op.path!r}]") from failure


def _freshness(timing: Timing, deadline_ms: int) -> IsFresh:
    """A function that says whether reads that begin now are still younger than the deadline when it is called."""
    began = both_clocks(timing)
    return lambda: all(now - then < deadline_ms for now, then in zip(both_clocks(timing), began, strict=True))
