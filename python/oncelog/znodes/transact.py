"""`transact`: run a step on a snapshot, commit what it read and wrote as one multi, run it again on conflict.

A store gets it by its base class `Transacting`. It is the only caller of `multi` in oncelog.

A znode that is deleted and created again starts at version 0, so that an old version may come back and a step that
read the old znode would pass its check. Assumptions: what can be recreated stays as a tombstone for
limits.TOMBSTONE_MS; a step writes only while its snapshot is younger than its deadline, which is far shorter, and
that is asked under the store's lock (a process may be stopped anywhere before). Hence no old version returns in time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from oncelog.ports import ANY_VERSION, Op, Set, Stat, Timing, ZnodeStore, ZnodeView
from oncelog.znodes.errors import MultiFailedError, Refusal, StaleStepError
from oncelog.znodes.view import BufferedView

T = TypeVar("T")
P = TypeVar("P")

IsFresh = Callable[[], bool]
ReadSet = dict[str, Stat]

UNKNOWN_OUTCOME_ATTEMPTS = 5
"""Of one step whose answer is lost."""


def always_fresh() -> bool:
    """For a multi that rests on no earlier reads."""
    return True


class Transacting:
    """The base class of every store: its `transact`, made of what else the store provides."""

    def transact(self: ZnodeStore, step: Callable[[ZnodeView], T], *, deadline_ms: int = TRANSACT_DEADLINE_MS) -> T:
        """Run `step` and commit it; see `ports.ZnodeStore.transact`."""
        return _transact(self, step, deadline_ms)


def _transact(store: ZnodeStore, step: Callable[[ZnodeView], T], deadline_ms: int) -> T:
    ensure(0 < deadline_ms < TOMBSTONE_MS // 2, "a step ends long before a tombstone does", deadline_ms=deadline_ms)
    timing = store.timing
    began_ms = timing.clock.monotonic_ms()
    attempts = 0
    refused: ReadSet | None = None
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
                "the znode store is damaged: it refused a step twice, though nothing that the step had read changed "
                "between; restore it from a backup",
                path=conflict.path,
            )
        refused = conflict.refused
        pause_ms = round(timing.jitter() * CONFLICT_PAUSE_MAX_MS)
        if timing.clock.monotonic_ms() + pause_ms - began_ms >= deadline_ms:
            raise TransactConflictError(
                "others kept changing what this step reads, until its deadline; make the same call again",
                path=conflict.path,
                attempts=attempts,
                deadline_ms=deadline_ms,
            )
        if pause_ms:
            timing.clock.sleep_ms(pause_ms)


def resolving(step: Callable[[], T], *, also: tuple[type[RetriableError], ...] = ()) -> T:
    """Run an idempotent step again while its outcome is unknown (invariant I5).

    Args:
        step: to run.
        also: other errors to try again after.
    """
    return resolving_told(lambda is_repeated: step(), also=also)


def resolving_told(step: Callable[[bool], T], *, also: tuple[type[RetriableError], ...] = ()) -> T:
    """`resolving` of a step that is told whether an earlier run of it may have been done."""
    unknown: OutcomeUnknownError | None = None
    for left in reversed(range(UNKNOWN_OUTCOME_ATTEMPTS)):
        try:
            return step(unknown is not None)
        except OutcomeUnknownError as error:
            unknown = error
        except RetriableError as error:
            # That nothing was written is true of this attempt, and says nothing of the one before.
            if not left or not isinstance(error, also):
                raise unknown or error from None
    raise unknown or OutcomeUnknownError("the step was not answered")


def in_parts(parts: Sequence[P], run: Callable[[Sequence[P]], T]) -> list[T]:
    """Run a step for all of `parts`, or for one half after the other where all are more than a step takes.

    How large a step is depends on what others wrote into the znodes it sets, so nobody knows before.

    Args:
        parts: in the order in which they are done.
        run: one step for some of them, idempotent; it is not called without any.

    Raises:
        StepTooLargeError: one part alone is too large.
        Whatever `run` raises; parts before it are done then.
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
    """What a run of a step returned or raised; believed only after its checks held."""

    value: T | None
    error: Exception | None

    @classmethod
    def of(cls, step: Callable[[ZnodeView], T], view: ZnodeView) -> _Result[T]:
        try:
            return cls(step(view), None)
        except Exception as error:  # noqa: BLE001 - it is raised again once the reads it rests on are confirmed
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
    """What the run rests on, if the store refused the run's multi."""


def _commit(store: ZnodeStore, view: BufferedView, result: _Result[T], is_fresh: IsFresh) -> _Conflict | None:
    """Commit what a run read and wrote. Returns None for success."""
    if view.torn_path is not None:
        return _Conflict(view.torn_path)
    writes = result.error is None and view.has_writes
    if store.reads_are_atomic and not writes:
        return None
    ops = view.ops() if writes else view.checks()
    if not ops:
        return None
    try:
        store.multi(ops, is_fresh=is_fresh)
    except StaleStepError:
        return _Conflict(ops[0].path)
    except MultiFailedError as failure:
        _ensure_is_conflict(failure, ops)
        return _Conflict(failure.path, refused=view.read_set())
    return None


def _ensure_is_conflict(failure: MultiFailedError, ops: Sequence[Op]) -> None:
    """Tell a conflict from a step that could never pass, by the order of `BufferedView.ops`."""
    op = ops[failure.index]
    if failure.refusal is Refusal.NOT_EMPTY:
        raise InvariantViolation(f"a step deletes a znode that has children [path={op.path!r}]") from failure
    if isinstance(op, Set) and op.version == ANY_VERSION:
        raise InvariantViolation(f"a blind set needs an existing znode [path={op.path!r}]") from failure


def _freshness(timing: Timing, deadline_ms: int) -> IsFresh:
    """Whether reads that begin now are still younger than the deadline when it is asked.

    By both clocks: durations may stand still while a virtual machine is paused, and the wall clock may be set back.
    """
    durations_ms, wall_ms = timing.clock.monotonic_ms(), timing.now_ms()
    return lambda: timing.clock.monotonic_ms() - durations_ms < deadline_ms and timing.now_ms() - wall_ms < deadline_ms
