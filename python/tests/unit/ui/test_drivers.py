"""What drivers say of their queries is on the page, and one that says nothing, or nonsense, takes nothing from it."""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from playwright.sync_api import expect

import oncelog
import oncelog.ui
from oncelog.metrics import catalogue as c
from oncelog.metrics.addresses import Address, parse_address
from oncelog.metrics.exposition import CollectorRegistry, Instruments, parse_page, served
from oncelog.ui import drivers
from oncelog.ui.drivers import Driver, read_driver, tell, watch
from oncelog.ui.watching import Watcher
from tests.support.harness.browser import DESK, PHONE, accessibility_problems, cut_off, require_chromium, running
from tests.support.harness.waiting import until
from tests.support.log.shell import Shell
from tests.support.log.ui import HOSTILE, HOSTILE_SHOWN, take_picture
from tests.support.log.ui import served as served_page

LONG = HOSTILE + "-" + "x" * 500
NOW_MS = 1_700_000_000_000
SINK = (LONG, "kafka", "pre'fix\n")


@contextmanager
def driver(values: Mapping[c.Metric, Mapping[tuple[str, ...], float]]) -> Iterator[Address]:
    """A driver that serves these values, as `oncelog.spark.observe` does."""
    instruments, registry = Instruments(c.QUERY), CollectorRegistry(auto_describe=False)
    registry.register(instruments)
    for metric, found in values.items():
        for labels, value in found.items():
            instruments.put(metric, value, *labels)
    with served(registry, Address("127.0.0.1", 0)) as url:
        yield parse_address(url.removeprefix("http://").removesuffix("/metrics"))


@contextmanager
def answering(answer: Callable[[socket.socket], object]) -> Iterator[Address]:
    """Something else that listens where a driver should."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    with connection, suppress(OSError):
                        answer(connection)

        threading.Thread(target=serve, daemon=True).start()
        yield Address("127.0.0.1", listening.getsockname()[1])
        listening.shutdown(socket.SHUT_RDWR)


VALUES: Mapping[c.Metric, Mapping[tuple[str, ...], float]] = {
    c.QUERY_ACTIVE: {(LONG,): 1, ("gone",): 0, ("stopped",): 0},
    c.QUERY_FAILURES: {(LONG,): 1, ("gone",): 2, ("stopped",): 0},
    c.QUERY_PROGRESS: {(LONG,): NOW_MS / 1000 - 90},
    c.QUERY_BATCH: {(LONG,): 8},
    c.QUERY_ROWS: {(LONG,): 1000},
    c.SOURCE_BEHIND: {(LONG, "0"): 5, (LONG, "1"): 7, ("gone", "0"): float("nan")},
    c.SINK_BATCHES: {(*SINK, "written"): 8, (*SINK, "refused"): 1, (LONG, "log", "x", "written"): 8},
    c.SINK_ROWS: {SINK: 900},
}


def looked(found: Driver) -> Any:
    found.watcher.look_if_due(1)
    return tell([found])


def test_a_query_is_a_row_that_unfolds_to_its_sinks_and_what_ended_with_an_error_is_a_trouble() -> None:
    with driver(VALUES) as address:
        told = looked(Driver(address, Watcher(lambda: read_driver(address), wall_ms=lambda: NOW_MS)))

    at = str(address)
    assert told.table.rows == [
        ["gone", at, "ended", None, None, None, None, ""],
        ["stopped", at, "ended", None, None, None, None, ""],
        [LONG, at, "runs", 90, 8, 7, 1000, "16 written, 1 refused"],
    ]
    assert told.table.parts[2] == [
        ["pre'fix\n into kafka", None, None, None, None, None, 900, "8 written, 1 refused"],
        ["x into log", None, None, None, None, None, None, "8 written"],
    ]
    ((what, who),) = [(one.what, one.who) for one in told.troubles]
    assert (who, "2 times since its driver began" in what) == ("gone", True)


def http(body: bytes, status: str = "200 OK", more: str = "") -> Callable[[socket.socket], None]:
    def answer(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(f"HTTP/1.0 {status}\r\n{more}\r\n".encode() + body)

    return answer


def endless(connection: socket.socket) -> None:
    http(b"")(connection)
    while True:
        connection.sendall(b"# more\n" * 1000)


def slow(connection: socket.socket) -> None:
    http(b"")(connection)
    while True:
        connection.sendall(b"#")


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (lambda connection: connection.recv(4096), "RemoteDisconnected"),
        (lambda connection: connection.sendall(connection.recv(4096)), "BadStatusLine"),
        (http(b"", "404 Not Found"), "status=404"),
        (http(b"", "302 Found", "Location: http://127.0.0.1:1/metrics\r\n"), "status=302"),
        (http(b"\xff\xfe"), "UnicodeDecodeError"),
        (http(b"oncelog_query_active{query=\n"), "ValueError"),
        (endless, "too long"),
        (slow, "too long"),
    ],
)
def test_what_is_no_driver_is_said_with_the_reason(
    answer: Callable[[socket.socket], object], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drivers, "ANSWER_SECONDS", 0.5)
    monkeypatch.setattr(drivers, "MAX_PAGE_BYTES", 1 << 20)
    with answering(answer) as address:
        told = looked(watch(address))

    (trouble,) = told.troubles
    assert trouble.who == f"driver {address}"
    assert problem in trouble.what
    assert told.table.rows == []


def test_a_driver_that_is_gone_is_said_and_what_it_said_last_stays() -> None:
    seconds = iter(range(0, 1000, 20))
    with driver(VALUES) as address:
        found = Driver(address, Watcher(lambda: read_driver(address), monotonic=lambda: next(seconds)))
        before = looked(found)
    after = looked(found)

    assert after.table.rows == before.table.rows
    assert any("ConnectionRefusedError" in one.what for one in after.troubles)


def test_values_of_other_labels_and_names_and_what_is_no_number_are_left_out() -> None:
    page = 'oncelog_query_active{query="a"} 1\noncelog_query_active{other="b"} 1\noncelog_query_active 1\nup 1\n'
    page += 'oncelog_query_last_batch_id{query="a"} NaN\noncelog_query_input_rows_total{query="a"} +Inf\n'
    reading = parse_page(page, c.QUERY)

    assert {metric: values for metric, values in reading.values.items() if values} == {c.QUERY_ACTIVE: {("a",): 1}}


@pytest.mark.slow
def test_a_driver_that_never_answers_holds_up_neither_the_page_nor_its_end(tmp_path: Path) -> None:
    wait = threading.Event()
    with oncelog.open(tmp_path / "log") as log, answering(lambda _: wait.wait(600)) as address:
        log.create_topic("flights")
        with served_page(tmp_path / "log", "--driver", str(address)) as url:

            def seen() -> Any:
                with urlopen(f"{url}snapshot.json") as answer:
                    page = json.load(answer)
                return page if page["tables"] and page["tables"][0]["rows"] else None

            page = until(seen)
            assert page["problem"] is None
            assert [one["who"] for one in page["troubles"]] == [f"driver {address}"]
        wait.set()


def test_an_address_of_a_driver_that_is_none_is_refused(tmp_path: Path) -> None:
    oncelog.open(tmp_path / "log").close()
    said = Shell(tmp_path / "log").refused("ui", "--driver", "http://host/metrics", exit_code=2)
    assert "not an address" in said


def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "oncelog.metrics.exposition")
    monkeypatch.delitem(sys.modules, "oncelog.ui.drivers")
    monkeypatch.delattr(oncelog.ui, "drivers")
    monkeypatch.setitem(sys.modules, "prometheus_client", None)

    said = Shell(tmp_path / "log").refused("ui", "--driver", "127.0.0.1:9465", exit_code=2)
    assert "install oncelog[metrics]" in said


@pytest.mark.sampled("the page of oncelog ui")
@pytest.mark.slow
def test_names_of_queries_are_text_and_everybody_can_read_them(tmp_path: Path) -> None:
    oncelog.open(tmp_path / "log").close()
    with (
        driver(VALUES) as address,
        running(require_chromium()) as chromium,
        served_page(tmp_path / "log", "--driver", str(address)) as url,
    ):
        for name, viewport in (("desk", DESK), ("phone", PHONE)):
            page = chromium.new_page(viewport=viewport, color_scheme="dark" if name == "desk" else "light")
            page.goto(url)
            button = page.get_by_role("button", name=LONG.replace(HOSTILE, HOSTILE_SHOWN))
            button.click(timeout=60_000)
            expect(page.locator(".part").first).to_contain_text("pre'fix\\u000a into kafka")
            expect(page.locator("#troubles")).to_contain_text("2 times since its driver began")
            take_picture(page, f"queries-{name}")
            assert accessibility_problems(page) == ""
            assert cut_off(page) == []
            assert page.locator("img").count() == 0
            assert "owned" not in page.title()
            page.close()
