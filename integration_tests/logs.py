"""Logs on servers that come and go: what their clients meet, and what still holds at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import oncelog
from oncelog.clients.producer import Producer
from oncelog.errors import AbortableError, OncelogError, OutcomeUnknownError, RetriableError, StoreUnavailableError
from oncelog.runtime import Log
from oncelog.testing import invariants
from tests.support.log.copier import persevere
from tests.support.log.logs import TOPIC, started, values

TIMEOUT = "timeout_ms=5000"
AWAY = (StoreUnavailableError, OutcomeUnknownError)
"""What the loss of ZooKeeper is to a call: the second if it had been asked to write."""

LATE_S = 30
"""How long a call with that time-out may take, on a loaded machine: three calls of the store may be in it."""


@contextmanager
def opened(path: Path | str, znodes: str) -> Iterator[Log]:
    """A log with one topic of two partitions; its laws are checked at the end."""
    with oncelog.open(path, znodes) as log:
        log.create_topic(TOPIC, partitions=2)
        yield log
        invariants.check(log)


def assert_away(log: Log) -> None:
    """While ZooKeeper is away every call ends within its time, with the error that says so."""
    for call in (log.admin.list_topics, lambda: values(log), lambda: started(log, "another")):
        error = fails_in_time(call)
        assert isinstance(error, AWAY)


def fails_in_time(call: Callable[[], object]) -> OncelogError:
    """The error of a call, which may take its time-out and no more."""
    began_s = time.monotonic()
    with pytest.raises(OncelogError) as caught:
        call()
    assert time.monotonic() - began_s < LATE_S
    return caught.value


def write_surely(producer: Producer, write: Callable[[], object]) -> None:
    """Carry out `write` in a transaction, again and again until one commits."""
    while True:
        producer.begin_transaction()
        try:
            write()
            producer.flush()
        except (RetriableError, AbortableError, OutcomeUnknownError):
            persevere(producer.abort_transaction)
        else:
            persevere(producer.commit_transaction)
            return
