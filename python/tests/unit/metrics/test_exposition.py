"""How readings are served: once a second, never stale, over HTTP, whatever names are in them."""

from __future__ import annotations

import gzip
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from oncelog.batches.ledger import all_kinds
from oncelog.errors import StoreUnavailableError, UsageError
from oncelog.metrics import catalogue as c
from oncelog.metrics import exposition
from oncelog.metrics.addresses import LOOPBACK
from oncelog.metrics.exposition import (
    Address,
    CollectorRegistry,
    Instruments,
    ReadingCollector,
    TextPage,
    parse_address,
    served,
)
from oncelog.metrics.reading import Reading
from oncelog.metrics.sources import LogSource, Reopening
from oncelog.ports import ZnodeStore
from oncelog.znodes import paths
from tests.support.log.logs import TOPIC, LogWorld, log_world, partition, send, tp
from tests.support.log.pages import check_catalogued, page_at, page_of, parse, value
from tests.support.log.wrapped import WrappedStore


class Switch:
    """What is watched, and can be away."""

    def __init__(self) -> None:
        self.reads = 0
        self.is_away = False
        self.gate = threading.Event()
        self.gate.set()

    def read(self) -> Reading:
        self.reads += 1
        self.gate.wait(60)
        if self.is_away:
            raise StoreUnavailableError("the test's store is away")
        reading = Reading([c.TOPICS])
        reading.put(c.TOPICS, self.reads)
        return reading


@pytest.fixture
def switch() -> Switch:
    return Switch()


@pytest.fixture
def registry(switch: Switch) -> Iterator[CollectorRegistry]:
    collector = ReadingCollector(switch.read)
    found = CollectorRegistry(auto_describe=False)
    found.register(collector)
    yield found
    switch.gate.set()
    collector.close()


@pytest.fixture
def always_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exposition, "FRESH_SECONDS", 0)


@pytest.mark.usefixtures("always_anew")
def test_who_is_away_is_down_and_has_no_stale_values_and_comes_back(
    switch: Switch, registry: CollectorRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "oncelog.metrics")
    before = page_of(registry)
    switch.is_away = True

    away = [page_of(registry) for _ in range(3)]

    switch.is_away = False
    after = page_of(registry)
    assert [value(page, c.UP) for page in (before, *away, after)] == [1, 0, 0, 0, 1]
    assert [value(page, c.TOPICS) for page in (before, *away, after)] == [1, None, None, None, 5]
    assert value(away[-1], c.READ_ERRORS, error="StoreUnavailableError") == 3
    assert value(after, c.READS) == 5
    warning, good_news = (one for one in caplog.records if one.name == exposition.__name__)
    assert "serves oncelog_up 0" in warning.getMessage()
    assert good_news.getMessage() == "the exporter can read again"


def test_scrapes_of_one_second_share_a_read(switch: Switch, registry: CollectorRegistry) -> None:
    switch.gate.clear()
    with ThreadPoolExecutor(4) as scrapers:
        pages = [scrapers.submit(page_of, registry) for _ in range(4)]
        switch.gate.set()

    assert [value(page.result(), c.UP) for page in pages] == [1, 1, 1, 1]
    assert switch.reads == 1


def test_errors_are_shared_like_values(switch: Switch, registry: CollectorRegistry) -> None:
    switch.is_away = True

    for _ in range(3):
        assert value(page_of(registry), c.UP) == 0

    assert switch.reads == 1


@pytest.mark.usefixtures("always_anew")
def test_a_read_that_hangs_holds_up_no_scrape(
    switch: Switch, registry: CollectorRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exposition, "PATIENCE_SECONDS", 0.05)
    switch.gate.clear()

    pages = [page_of(registry) for _ in range(3)]

    assert [value(page, c.UP) for page in pages] == [0, 0, 0]
    assert value(pages[-1], c.READ_ERRORS, error="TimeoutError") == 1
    assert switch.reads == 1
    switch.gate.set()
    monkeypatch.setattr(exposition, "PATIENCE_SECONDS", 60)
    assert value(page_of(registry), c.UP) == 1


def test_hostile_names_are_escaped() -> None:
    hostile = 'a"b\\c\nd{e="f"} 1\n# HELP'
    found = CollectorRegistry(auto_describe=False)
    collector = ReadingCollector(lambda: _of_group(hostile, "\ud800"))
    found.register(collector)

    page = page_of(found)
    collector.close()

    assert value(page, c.GROUP_UNDECIDED, group=hostile) == 1
    assert value(page, c.GROUP_UNDECIDED, group="?") == 1
    assert value(page, c.UP) == 1


def test_labels_that_are_equal_and_have_other_texts_stay_apart() -> None:
    reading = Reading([c.GROUP_UNDECIDED])
    reading.put(c.GROUP_UNDECIDED, 3, 1)
    reading.put(c.GROUP_UNDECIDED, 4, True)

    assert dict(reading.values[c.GROUP_UNDECIDED]) == {("1",): 3, ("True",): 4}


def _of_group(*names: str) -> Reading:
    reading = Reading([c.GROUP_UNDECIDED])
    for name in names:
        reading.put(c.GROUP_UNDECIDED, 1, name)
    return reading


# A log, over HTTP -----------------------------------------------------------------------------------------------------


class Unplugged(WrappedStore):
    """A store that others read, and that is away when the test says so."""

    is_away = False

    def inner(self) -> ZnodeStore:
        if self.is_away:
            raise StoreUnavailableError("the test's store is away")
        return self._store

    def close(self) -> None:
        """The real store is the world's."""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LogWorld]:
    with log_world(tmp_path) as found:
        found.log.create_topic(TOPIC, partitions=2)
        send(found.log.producer(), b"a", b"b")
        found.log.admin.alter_offsets("readers", {tp(): 1})
        yield found


@pytest.mark.usefixtures("always_anew")
def test_a_log_is_served_over_http_and_a_source_that_failed_is_opened_again(world: LogWorld) -> None:
    store = Unplugged(world.store())
    opened: list[int] = []

    def open_source() -> LogSource:
        opened.append(1)
        return LogSource(world.open(store))

    source = Reopening(open_source)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector := ReadingCollector(source.read))
    with served(registry, LOOPBACK) as url:
        before = page_at(url)
        store.is_away = True
        away = [page_at(url), page_at(url)]
        store.is_away = False
        after = page_at(url)
    collector.close()
    source.close()

    lag = {"group": "readers", "topic": TOPIC, "partition": 0}
    assert [value(page, c.GROUP_LAG, **lag) for page in (before, *away, after)] == [1, None, None, 1]
    check_catalogued(away[0], [c.UP, c.READS, c.READ_ERRORS, c.BUILD_INFO])
    assert len(opened) >= 2


@pytest.mark.usefixtures("always_anew")
def test_damaged_metadata_is_an_error_that_is_counted_and_no_page_without_an_answer(world: LogWorld) -> None:
    world.is_checked = False
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector := ReadingCollector(LogSource(world.log).read))
    before = page_of(registry)
    store, path = world.log.services.store, paths.partition(partition(world.log))
    sound = store.get(path)
    assert sound is not None
    store.transact(lambda view: view.set(path, b"{"))

    damaged = page_of(registry)

    store.transact(lambda view: view.set(path, sound.data))
    after = page_of(registry)
    collector.close()
    assert [value(page, c.UP) for page in (before, damaged, after)] == [1, 0, 1]
    assert value(damaged, c.READ_ERRORS, error="CorruptDataError") == 1


def test_a_page_is_compressed_for_those_who_understand_that(registry: CollectorRegistry) -> None:
    with served(registry, LOOPBACK) as url:
        plain, packed = urlopen(url), urlopen(Request(url, headers={"Accept-Encoding": "deflate, gzip;q=1.0"}))

        assert plain.headers["Content-Encoding"] is None
        assert packed.headers["Content-Encoding"] == "gzip"
        assert packed.headers["Content-Type"] == plain.headers["Content-Type"]
        assert parse(gzip.decompress(packed.read()).decode()) == parse(plain.read().decode())


def test_a_page_over_http_is_that_of_prometheus_client_again_and_again() -> None:
    found = CollectorRegistry(auto_describe=False)
    hostile = 'a"b\\c\nd{e="f"} 1\n# HELP'
    readings = iter([_of_group(hostile, "b"), _of_group("b")] * 2)
    counted = Instruments([c.STORE_STEP, c.QUERY_ROWS])
    found.register(counted)
    counted.add(c.QUERY_ROWS, 2.5e9, hostile)
    with served(found, LOOPBACK) as url:
        for _ in range(2):
            counted.observe(c.STORE_STEP, 0.3, "done")
            assert page_at(url) == page_of(found)
        page = TextPage(found, LOOPBACK)
        for number in range(4):
            collector = ReadingCollector(lambda: next(readings))
            found.register(collector)
            groups = [line for line in page.text().splitlines() if line.startswith(c.GROUP_UNDECIDED.name)]
            found.unregister(collector)
            collector.close()
            assert len(groups) == 2 - number % 2


def test_only_a_get_is_answered_with_a_page(registry: CollectorRegistry) -> None:
    with served(registry, LOOPBACK) as url, pytest.raises(HTTPError) as refused:
        urlopen(Request(url, method="DELETE"))
    assert refused.value.code == 405
    refused.value.close()


@pytest.mark.parametrize("path", ["metrics", "favicon.ico", ""])
@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:9464", "", "10.0.0.1", "[::2]"])
def test_a_page_on_loopback_refuses_a_host_name_of_others(
    registry: CollectorRegistry, switch: Switch, host: str, path: str
) -> None:
    with served(registry, LOOPBACK) as url, pytest.raises(HTTPError) as refused:
        urlopen(Request(url.replace("metrics", path), headers={"Host": host}), timeout=30)

    assert refused.value.code == 403
    assert switch.reads == 0
    refused.value.close()


def test_a_page_on_loopback_answers_each_name_of_this_machine(registry: CollectorRegistry) -> None:
    with served(registry, LOOPBACK) as url:
        for host in ("localhost:1", "LOCALHOST", "[::1]:9464", "127.9.9.9"):
            with urlopen(Request(url, headers={"Host": host}), timeout=30) as answer:
                assert answer.status == 200


def test_a_page_for_other_machines_answers_any_host_name(registry: CollectorRegistry) -> None:
    with served(registry, Address("0.0.0.0", 0)) as url:
        local = url.replace("0.0.0.0", "127.0.0.1")
        with urlopen(Request(local, headers={"Host": "log-host:9464"}), timeout=30) as answer:
            assert answer.status == 200


def test_a_browser_that_asks_for_an_icon_has_nothing_read(registry: CollectorRegistry, switch: Switch) -> None:
    with served(registry, LOOPBACK) as url:
        icon = urlopen(url.replace("/metrics", "/favicon.ico")).read()
    assert (icon, switch.reads) == (b"", 0)


def test_packages_with_ledgers_are_looked_for_before_the_first_reading(world: LogWorld) -> None:
    all_kinds.cache_clear()
    source = Reopening(lambda: LogSource(world.open(Unplugged(world.store()))))
    misses = all_kinds.cache_info().misses

    source.read()

    assert (misses, all_kinds.cache_info().misses) == (1, 1)
    source.close()


def test_a_port_that_is_taken_is_named(registry: CollectorRegistry) -> None:
    with served(registry, LOOPBACK) as url:
        taken = parse_address(url.removeprefix("http://").removesuffix("/metrics"))
        with pytest.raises(UsageError, match="cannot listen at this address") as refused, served(registry, taken):
            pass

    assert refused.value.fields["listen"] == str(taken)


def test_a_server_that_was_closed_leaves_its_port(registry: CollectorRegistry) -> None:
    with served(registry, LOOPBACK) as url:
        address = parse_address(url.removeprefix("http://").removesuffix("/metrics"))
    with served(registry, address) as again, urlopen(again, timeout=30) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")


@pytest.mark.parametrize(
    ("text", "address", "is_loopback"),
    [
        ("127.0.0.1:9464", Address("127.0.0.1", 9464), True),
        ("localhost:0", Address("localhost", 0), True),
        ("[::1]:9464", Address("::1", 9464), True),
        ("0.0.0.0:80", Address("0.0.0.0", 80), False),
        ("metrics.example:65535", Address("metrics.example", 65535), False),
    ],
)
def test_an_address_is_read_as_it_is_shown(text: str, address: Address, is_loopback: bool) -> None:
    assert parse_address(text) == address
    assert str(address) == text
    assert address.is_loopback is is_loopback


@pytest.mark.parametrize(
    "text", ["", "9464", ":9464", "host:", "host:http", "host:65536", "host:-1", "::1:9464", "[]:1"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not an address to listen on"):
        parse_address(text)
