"""Small scenes of the sink, each with its preparation, to be run with a fault at every call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from oncelog import crash_points
from oncelog.crash_points import CrashPoint
from oncelog_kafka.crash_points import KafkaCrashPoint
from simulation.kafka.queries import SinkQuery, Traits
from simulation.processes import Process

Follow = Callable[[Callable[[Process], None]], bool]
"""Runs a driver, and returns whether it has done its work."""

REWRITES: Mapping[str, object] = {
    "onTimedOutParticipant": "rewrite",
    "participants": 3,
    "transactionTimeoutMs": 5_000,
}

TIMED_OUT_MS = 30_000
"""By then the brokers have aborted a transaction of `REWRITES`."""

STANDS_STILL_MS = 120_000


class Scene:
    """One batch of two tasks.

    Attributes:
        batches: of the source.
        more: options of the sink.
        traits: of the query.
        may_lose: whether a fault may take so long that transactions time out after their decision.
        loses: whether some time out in any case, and nobody writes them again.
    """

    batches: ClassVar[int] = 1
    more: ClassVar[Mapping[str, object]] = {}
    traits: ClassVar[Traits] = Traits()
    may_lose: ClassVar[bool] = False
    loses: ClassVar[bool] = False

    def prepare(self, query: SinkQuery, follow: Follow) -> None:
        """What happened before, without faults."""


class OneBatch(Scene):
    """One batch of two tasks."""


class TwoBatches(Scene):
    """Two batches of one run, with one lease, which move a group."""

    batches = 2
    traits = Traits(has_group=True)


class Speculation(Scene):
    """Each task has a copy."""

    batches = 2
    traits = Traits(copies=1.0)


class Replay(Scene):
    """A batch whose driver died right after its decision."""

    batches = 2

    def prepare(self, query: SinkQuery, follow: Follow) -> None:
        follow(lambda process: _killed_at(CrashPoint.ROUND_DECIDED, process, query))


class Rewrite(Scene):
    """The same, but the batch timed out before the next driver began."""

    batches = 2
    more = REWRITES
    may_lose = True

    def prepare(self, query: SinkQuery, follow: Follow) -> None:
        _time_out_behind(CrashPoint.ROUND_DECIDED, query, follow)


class RewriteOfAPart(Scene):
    """A part of the batch was committed before its driver died, and the rest timed out."""

    more = REWRITES
    may_lose = True

    def prepare(self, query: SinkQuery, follow: Follow) -> None:
        _time_out_behind(KafkaCrashPoint.ENDED, query, follow)


class Reinitialised(Scene):
    """Every part was committed before the driver died, but the ids were used again since, so only the tokens tell."""

    def prepare(self, query: SinkQuery, follow: Follow) -> None:
        follow(lambda process: _killed_at(KafkaCrashPoint.ENDED, process, query, times=2))
        cluster = query.place.cluster
        cluster.settle()
        for name in list(cluster.ids):
            cluster.init(name, TIMED_OUT_MS)


class Takeover(Replay):
    """The checkpoint is lost together with the driver, whose decision is not complete."""

    traits = Traits(has_group=True)

    def prepare(self, query: SinkQuery, follow: Follow) -> None:
        super().prepare(query, follow)
        query.operator.lose_checkpoint()


class TakeoverBesideADriver(Scene):
    """The checkpoint is lost, and the driver is paused before its decision, out of reach; it wakes up later."""

    batches = 2
    traits = Traits(has_group=True)

    def prepare(self, query: SinkQuery, follow: Follow) -> None:
        follow(lambda process: _paused_at(KafkaCrashPoint.WRITTEN, process, query))
        query.operator.lose_checkpoint()


class TakeoverThatLoses(Takeover):
    """The first batch of the query that took over times out after its decision, so the group does not move."""

    batches = 3
    more: ClassVar[Mapping[str, object]] = {"transactionTimeoutMs": 20_000}
    loses = True

    def prepare(self, query: SinkQuery, follow: Follow) -> None:
        super().prepare(query, follow)
        _time_out_behind(CrashPoint.ROUND_DECIDED, query, follow)


class TakeoverTwice(TakeoverThatLoses):
    """The same, after another query in between that took over and decided nothing."""

    def prepare(self, query: SinkQuery, follow: Follow) -> None:
        Takeover.prepare(self, query, follow)
        follow(lambda process: _killed_at(KafkaCrashPoint.WRITTEN, process, query))
        query.operator.lose_checkpoint()
        _time_out_behind(CrashPoint.ROUND_DECIDED, query, follow)


def _time_out_behind(point: str, query: SinkQuery, follow: Follow) -> None:
    """A driver dies at a crash point, and what it left open times out."""
    follow(lambda process: _killed_at(point, process, query))
    query.world.scheduler.wait(TIMED_OUT_MS)


def _killed_at(point: str, process: Process, query: SinkQuery, *, times: int = 1) -> None:
    left = [point] * times

    def die(reached: str) -> None:
        if reached != point:
            return
        left.pop()
        if not left:
            crash_points.arm(None)
            process.die_after()

    crash_points.arm(die)
    query.go_on(process)


def _paused_at(point: str, process: Process, query: SinkQuery) -> None:
    def pause(reached: str) -> None:
        if reached == point:
            crash_points.arm(None)
            process.pause(STANDS_STILL_MS)
            process.on_pause()

    crash_points.arm(pause)
    query.go_on(process)


SCENES: dict[str, type[Scene]] = {
    scene.__name__: scene
    for scene in (
        OneBatch,
        TwoBatches,
        Speculation,
        Replay,
        Rewrite,
        RewriteOfAPart,
        Reinitialised,
        Takeover,
        TakeoverBesideADriver,
        TakeoverThatLoses,
        TakeoverTwice,
    )
}
"""The scenes by name."""
