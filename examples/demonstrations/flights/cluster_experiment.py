"""The pipeline on a cluster, of which one part after the other is killed while batches are written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from flights import steps
from flights.cluster import HOSTS, SparkCluster
from flights.folders import Folders
from flights.processes import Program, Programs
from flights.progress import Lane
from flights.reading import TopicReader
from flights.steps import Steps
from flights.story import KillStory, Story
from oncelog.testing.zookeeper_server import ZookeeperEnsemble, ZookeeperServer

NAME = "cluster"
BATCHES_BETWEEN_KILLS = 2


class Part(StrEnum):
    """What can be killed, as people call it."""

    WORKER = "a worker"
    EXECUTOR = "an executor"
    DRIVER = "the driver"
    LEADER = "the ZooKeeper leader"


@dataclass(frozen=True, slots=True)
class Kill:
    """One SIGKILL.

    Attributes:
        part: that gets it.
        host: where a worker or an executor is killed.
        after_s: how long after the beginning of a batch.
    """

    part: Part
    host: str = HOSTS[0]
    after_s: float = 0.0


KILLS = (
    Kill(Part.EXECUTOR, HOSTS[0], after_s=0.2),
    Kill(Part.LEADER, after_s=0.5),
    Kill(Part.WORKER, HOSTS[1], after_s=0.4),
    Kill(Part.DRIVER, after_s=0.7),
    Kill(Part.LEADER, after_s=0.1),
    Kill(Part.EXECUTOR, HOSTS[1], after_s=0.6),
    Kill(Part.DRIVER, after_s=0.3),
    Kill(Part.WORKER, HOSTS[0], after_s=0.1),
)
"""Each part dies twice, at different times in the life of a batch."""


async def run(ensemble: ZookeeperEnsemble, folders: Folders, lane: Lane) -> Story:
    """Run the pipeline on a Spark cluster under all kills, until it has read all flights.

    Args:
        ensemble: that holds the znodes; all of it is there again at the end.
        folders: of the run.
        lane: of the display.

    Raises:
        ProgramFailedError: a program failed otherwise than it was made to, or did not get on.
    """
    lane.does("the servers start")
    with Programs(folders.root) as programs:
        spark = SparkCluster(folders.root, programs)
        await spark.start()
        with steps.beginning(NAME, folders, programs, TopicReader, lane) as begun:
            return await _Experiment(begun, spark, ensemble).run()


class _Experiment:
    """The kills of a run, and what follows them."""

    def __init__(self, begun: Steps, spark: SparkCluster, ensemble: ZookeeperEnsemble) -> None:
        self._steps = begun
        self._spark = spark
        self._ensemble = ensemble
        self._attempt = 0
        self._running = self._start_query()
        self._down: ZookeeperServer | None = None
        self._strikes = {
            Part.WORKER: self._strike_worker,
            Part.EXECUTOR: self._strike_executor,
            Part.DRIVER: self._strike_driver,
            Part.LEADER: self._strike_leader,
        }

    async def run(self) -> Story:
        loading = self._steps.start_loader()
        await self._steps.batches(self._running, -1, BATCHES_BETWEEN_KILLS)
        kills: list[KillStory] = []
        for kill in KILLS:
            kills.append(await self._kill(kill))
            self._steps.lane.tells_kill(kills[-1])
            await self._make_whole()
            await self._steps.batches(self._running, kills[-1].batch, BATCHES_BETWEEN_KILLS)
        await self._steps.catch_up(loading, self._running)
        return self._steps.story(kills)

    async def _kill(self, kill: Kill) -> KillStory:
        """Kill a part in the middle of a batch, and wait for its successor and for a batch that began after that."""
        folders, watcher = self._steps.folders, self._steps.watcher
        self._steps.lane.does(f"kill -9 of {kill.part}")
        await self._until(lambda: folders.is_batch_running, "begin a batch")
        await asyncio.sleep(kill.after_s)
        at_s = watcher.now_s()
        is_back = self._strikes[kill.part](kill)
        batch = folders.batch_in_flight() or 0
        back_s, recovered_s = await asyncio.gather(
            self._until(is_back, f"go on after the kill of {kill.part}"), self._steps.batches(self._running, batch, 1)
        )
        return KillStory(kill.part, at_s, batch, back_s - at_s, recovered_s - at_s)

    async def _make_whole(self) -> None:
        """Have all servers and executors there again."""
        if self._down is not None:
            server, self._down = self._down, None
            server.start()
            await self._until(lambda: server.mode() is not None, "see the server come back")
        await self._until(lambda: self._spark.is_whole, "have an executor on each host")

    async def _until(self, is_done: Callable[[], bool], what: str) -> float:
        """Wait for something, while the query runs; returns when it came."""
        await self._steps.until(is_done, what, self._running)
        return self._steps.watcher.now_s()

    # Each kills something, sees to its successor, and returns whether that one is there.

    def _strike_worker(self, kill: Kill) -> Callable[[], bool]:
        self._spark.kill_host(kill.host)
        self._spark.start_worker(kill.host)
        return lambda: self._spark.is_registered(kill.host)

    def _strike_executor(self, kill: Kill) -> Callable[[], bool]:
        killed = set(self._spark.kill_executor(kill.host))
        return lambda: not killed.issuperset(self._spark.executors(kill.host))

    def _strike_driver(self, _: Kill) -> Callable[[], bool]:
        self._running.end_session()
        self._running = self._start_query()
        ready = self._steps.folders.ready(self._attempt)
        return ready.exists

    def _strike_leader(self, _: Kill) -> Callable[[], bool]:
        self._down = self._ensemble.leader
        self._down.stop()
        return lambda: self._ensemble.find_leader() is not None

    def _start_query(self) -> Program:
        self._attempt += 1
        name = f"query-{self._attempt}"
        return self._steps.start(name, "flights.cluster_query", str(self._attempt), self._spark.master)
