"""Carries a simulated process's requests to a simulated cluster: it waits for its turn, and has faults and crashes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

from simulation.faults import Fault, Operation
from simulation.kafka.requests import NoAnswerError
from simulation.processes import Process
from simulation.world import DELIVERED_WITHIN_MS, NETWORK

T = TypeVar("T")


class ProcessLine:
    """`requests.Line` of one process.

    Args:
        process: the one that sends the requests.
        lagging: a context in which the brokers answer without the newest state; by default they never lag.
    """

    def __init__(self, process: Process, lagging: Callable[[], AbstractContextManager[None]] = nullcontext) -> None:
        self._process = process
        self._lagging = lagging

    def carry(self, what: str, request: Callable[[], T], *, changes: bool = True) -> T:
        process = self._process
        fault = process.ask(Operation.BROKER_WRITE if changes else Operation.BROKER_READ, what)
        if fault is Fault.DELAYED_REQUEST:
            self._deliver_later(what, request)
        if fault in (Fault.UNAVAILABLE, Fault.LOST_REQUEST, Fault.DELAYED_REQUEST):
            raise NoAnswerError(what)
        with self._lagging() if fault is Fault.STALE_READ else nullcontext():
            answer = request()
        if fault is Fault.CRASH_AFTER:
            process.die_after()
        if fault is Fault.LOST_REPLY:
            raise NoAnswerError(what)
        return answer

    def _deliver_later(self, what: str, request: Callable[[], object]) -> None:
        """The client closes the connection while a request is on its way; the request arrives after its repetition."""
        world = self._process.world

        def arrive() -> None:
            world.note(NETWORK, Operation.BROKER_WRITE, f"{what} of {self._process.name}")
            request()

        world.scheduler.start(arrive, world.chance.randrange(DELIVERED_WITHIN_MS))
