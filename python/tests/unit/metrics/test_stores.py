"""What a process asks of znode stores is counted and timed, by what became of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import oncelog
from oncelog import metadata
from oncelog.errors import OutcomeUnknownError, StoreUnavailableError
from oncelog.metrics import catalogue as c
from oncelog.metrics.exposition import CollectorRegistry
from oncelog.metrics.stores import observe
from oncelog.ports import ZnodeStore, ZnodeView
from oncelog.znodes import metering
from oncelog.znodes.clock import store_now_ms
from oncelog.znodes.transact import resolving
from tests.support.log.faulty import Fault, FaultyStore, InterruptedStore
from tests.support.log.logs import TOPIC, send
from tests.support.log.pages import page_of


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ZnodeStore]:
    with closing(metadata.open_metadata(str(tmp_path / "znodes"))) as found:
        yield found


@pytest.fixture
def registry(store: ZnodeStore) -> Iterator[CollectorRegistry]:
    """Observed after the store was opened, which takes a step."""
    found = CollectorRegistry(auto_describe=False)
    with observe(found):
        yield found
    assert (page_of(found), metering.METERS) == ({}, [])


def counts(registry: CollectorRegistry, metric: c.Metric) -> dict[str, float]:
    """How many, by result."""
    page = page_of(registry)
    return {labels[0][1]: count for (name, labels), count in page.items() if name == f"{metric.name}_count"}


def raise_count(view: ZnodeView) -> None:
    znode = view.get("/count")
    if znode is None:
        view.create("/count", b"1")
    else:
        view.set("/count", b"%d" % (int(znode.data) + 1))


def test_steps_and_their_writes_are_counted_and_timed(registry: CollectorRegistry, store: ZnodeStore) -> None:
    for _ in range(3):
        store_now_ms(store)

    page = page_of(registry)
    assert counts(registry, c.STORE_STEP) == {"done": 3}
    assert counts(registry, c.STORE_WRITE) == {"written": 3}
    of = (("result", "done"),)
    assert (
        page["oncelog_store_step_seconds_sum", of] >= page["oncelog_store_write_seconds_sum", (("result", "written"),)]
    )


def test_a_write_whose_answer_is_lost_is_counted_and_its_step_is_run_again(
    registry: CollectorRegistry, store: ZnodeStore
) -> None:
    faulty = FaultyStore(store)
    faulty.fail_next(Fault.LOST_REPLY, Fault.LOST_REQUEST)

    resolving(lambda: faulty.transact(raise_count))

    assert counts(registry, c.STORE_STEP) == {"failed": 2, "done": 1}
    assert counts(registry, c.STORE_WRITE) == {"unanswered": 2, "written": 1}


def test_a_write_that_others_overtook_is_a_conflict_and_its_step_is_done(
    registry: CollectorRegistry, store: ZnodeStore
) -> None:
    store.transact(raise_count)
    interrupted = InterruptedStore(store, lambda: store.transact(raise_count))
    interrupted.interrupt()

    interrupted.transact(raise_count)

    assert counts(registry, c.STORE_STEP) == {"done": 3}
    assert counts(registry, c.STORE_WRITE) == {"written": 3, "conflict": 1}


def test_a_write_to_a_store_that_is_away_has_failed(registry: CollectorRegistry, store: ZnodeStore) -> None:
    faulty = FaultyStore(store)
    faulty.fail_next(Fault.UNAVAILABLE)

    with pytest.raises(StoreUnavailableError):
        faulty.transact(raise_count)

    assert (counts(registry, c.STORE_STEP), counts(registry, c.STORE_WRITE)) == ({"failed": 1}, {"failed": 1})


def test_what_a_client_does_is_counted(registry: CollectorRegistry, tmp_path: Path) -> None:
    with oncelog.open(tmp_path / "log") as log:
        log.create_topic(TOPIC)
        before = counts(registry, c.STORE_WRITE)["written"]
        send(log.producer(), b"a")

        assert counts(registry, c.STORE_WRITE)["written"] > before


def test_nothing_is_measured_unless_somebody_asks_for_it(store: ZnodeStore) -> None:
    faulty = FaultyStore(store)
    faulty.fail_next(Fault.LOST_REPLY)

    store_now_ms(store)
    with pytest.raises(OutcomeUnknownError):
        store_now_ms(faulty)

    assert metering.METERS == []
