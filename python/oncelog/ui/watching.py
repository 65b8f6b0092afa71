"""Reads what the page shows, at most once a second however many look at it, and remembers the last minutes."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from oncelog.metrics import catalogue as c
from oncelog.metrics.reading import Labels, Reading
from oncelog.ui.troubles import label

LOOKED_AT_SECONDS: Final = 1.0
UNSEEN_SECONDS: Final = 10.0
"""Between two reads: while somebody looks at the page, and while nobody does."""

PATIENCE_SECONDS: Final = 8.0
"""A read that takes longer is shown as a store that does not answer."""

LAGS_KEPT: Final = 60
EVENTS_KEPT: Final = 200


@dataclass
class History:
    """What the last readings said.

    Attributes:
        lags: of each group in all partitions together, oldest first.
        events: what was decided, newest first, with the time in milliseconds since 1970.
    """

    lags: dict[str, deque[float]] = field(default_factory=dict)
    events: deque[tuple[int, str]] = field(default_factory=lambda: deque(maxlen=EVENTS_KEPT))


class Watcher:
    """The newest reading, shared by all who look.

    Args:
        read: reads the store. One thread at a time calls `look`.
        monotonic: in seconds.
        wall_ms: in milliseconds since 1970.
    """

    def __init__(
        self,
        read: Callable[[], Reading],
        *,
        monotonic: Callable[[], float] = time.monotonic,
        wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._read = read
        self._monotonic = monotonic
        self._wall_ms = wall_ms
        self._began: float | None = None
        self._is_reading = False
        self._error: str | None = "nothing was read yet"
        self._known: dict[tuple[str, ...], str] = {}
        self.history = History()
        self.reading: Reading | None = None
        self.read_ms: int | None = None
        self.version = 0

    def look_if_due(self, viewers: int) -> None:
        """Read the store, unless that was done a moment ago. A failure is kept for the page, and ends nothing."""
        now = self._monotonic()
        if self._began is not None and now - self._began < (LOOKED_AT_SECONDS if viewers else UNSEEN_SECONDS):
            return
        self._began, self._is_reading = now, True
        try:
            reading = self._read()
        except Exception as problem:  # noqa: BLE001 - the page says so, and the next read may succeed
            self._error = f"{type(problem).__name__}: {problem}"
        else:
            self._remember(reading)
            self.reading, self.read_ms, self._error = reading, self._wall_ms(), None
        finally:
            self._is_reading = False
            self.version += 1

    @property
    def problem(self) -> str | None:
        """Why the newest reading is not the present state; None if it is."""
        began = self._began
        if self._is_reading and began is not None and self._monotonic() - began > PATIENCE_SECONDS:
            return f"the store has not answered for {self._monotonic() - began:.0f} s"
        return self._error

    def _remember(self, reading: Reading) -> None:
        lags: dict[str, float] = {}
        for (group, *_), lag in reading.values.get(c.GROUP_LAG, {}).items():
            lags[group] = lags.get(group, 0) + lag
        kept = self.history.lags
        # A new dict, because other threads may be drawing the old one.
        self.history.lags = {group: deque([*kept.get(group, ()), lag], LAGS_KEPT) for group, lag in lags.items()}
        self._note_decisions(reading)

    def _note_decisions(self, reading: Reading) -> None:
        known: dict[tuple[str, ...], str] = {("transaction", label(one)): one.state for one in reading.holders}
        rounds = reading.values.get(c.BATCH_ROUND, {})
        for ledger, state in batch_states(reading).items():
            known["batch", *ledger] = f"round {rounds.get(ledger, 0):.0f} is {state}"
        now_ms, is_first = self._wall_ms(), self.reading is None
        for key, state in known.items():
            before = self._known.get(key)
            if state != before and not is_first:
                self.history.events.appendleft((now_ms, _event(key, state)))
        for key in self._known.keys() - known.keys():
            if key[0] == "transaction":
                self.history.events.appendleft((now_ms, f"{key[1]}: ended"))
        self._known = known


def batch_states(reading: Reading) -> dict[Labels, str]:
    """The state of each ledger's newest round."""
    values = reading.values.get(c.BATCH_STATE, {})
    return {(target, prefix): state for (target, prefix, state), is_it in values.items() if is_it}


def _event(key: tuple[str, ...], state: str) -> str:
    if key[0] == "transaction":
        return f"{key[1]}: {state}"
    return f"{key[2]} into {key[1]}: {state}"
