"""``oncelog exporter`` as operators have it: a process of its own beside the log's."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import oncelog
from oncelog import metadata
from oncelog.batches.attempt import Batch, BatchReport
from oncelog.batches.transaction import run_steps
from oncelog.batches.two_functions import OnceTarget
from oncelog.metrics import catalogue as c
from oncelog.metrics.addresses import parse_address
from tests.support.log.copies import open_round
from tests.support.log.logs import TOPIC, send, started, tp, write_open
from tests.support.log.pages import check_catalogued, page_at, value
from tests.support.log.rounds import request
from tests.support.log.shell import Shell, serving

OF_A_SOUND_LOG = {*c.EXPORTER, *c.LOG, *c.LEDGER} - {c.READ_ERRORS}


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path / "log")


@pytest.fixture
def log(shell: Shell) -> Iterator[oncelog.Log]:
    """A log with an open transaction, an undecided batch, and a group that lags."""
    with oncelog.open(shell.folder) as opened:
        opened.create_topic(TOPIC, partitions=2)
        send(opened.producer(), b"a", b"b", b"c")
        opened.admin.alter_offsets("readers", {tp(): 1})
        open_round(opened)
        write_open(blocker := started(opened, "blocker"), b"d", number=1)
        yield opened
        blocker.abort_transaction()


@pytest.mark.slow
def test_a_page_of_a_log_is_the_catalogue_no_more_and_no_less(log: oncelog.Log, shell: Shell) -> None:
    with serving("exporter", "--path", shell.folder, "--listen", "127.0.0.1:0") as (_, url):
        page = page_at(url)

    assert value(page, c.UP) == 1
    assert value(page, c.GROUP_LAG, group="readers", topic=TOPIC, partition=0) == 2
    assert value(page, c.TRANSACTIONS, state="open") == 1
    assert value(page, c.LAST_STABLE, topic=TOPIC, partition=1) == 0
    assert value(page, c.BUILD_INFO, version=oncelog.__version__) == 1
    check_catalogued(page, OF_A_SOUND_LOG - {c.BATCH_LAST})  # no batch is decided yet


@pytest.mark.slow
def test_an_exporter_that_was_killed_serves_again_at_its_port(log: oncelog.Log, shell: Shell) -> None:
    with serving("exporter", "--path", shell.folder, "--listen", "127.0.0.1:0") as (process, url):
        page_at(url)
        process.send_signal(signal.SIGKILL)
        process.wait(60)
        address = parse_address(url.removeprefix("http://").removesuffix("/metrics"))
        with serving("exporter", "--path", shell.folder, "--listen", str(address)) as (_, again):
            page = page_at(again)

    assert again == url
    assert value(page, c.UP) == 1


@pytest.mark.slow
def test_ledgers_without_a_log_are_served_by_their_place(tmp_path: Path) -> None:
    store = metadata.open_metadata(str(tmp_path / "ledger"))
    target = OnceTarget(store, lambda rows, token: None, lambda token: False)
    attempt, report = target.attempt(Batch(request(3, prefix="sink"), None)), BatchReport(3)
    run_steps(store, [attempt.plan])
    attempt.write(report)
    attempt.prepare(report)
    run_steps(store, [lambda: attempt.decide(report)])
    store.close()

    with serving("exporter", "--znodes", tmp_path / "ledger", "--listen", "127.0.0.1:0") as (_, url):
        page = page_at(url)

    assert value(page, c.BATCH_LAST, target="once", prefix="sink") == 3
    assert value(page, c.BATCH_STATE, target="once", prefix="sink", state="decided") == 1
    check_catalogued(page, {*c.EXPORTER, *c.LEDGER} - {c.READ_ERRORS})


@pytest.mark.slow
def test_whoever_opens_it_to_others_is_told_what_they_see(log: oncelog.Log, shell: Shell) -> None:
    with serving("exporter", "--path", shell.folder, "--listen", "0.0.0.0:0") as (process, _):
        assert process.stderr is not None
        said = process.stderr.readline()

    assert said == "oncelog: everybody who reaches 0.0.0.0:0 sees the names of topics, groups and sinks; no records\n"


@pytest.mark.slow
def test_an_interrupt_ends_it(log: oncelog.Log, shell: Shell) -> None:
    with serving("exporter", "--path", shell.folder, "--listen", "127.0.0.1:0") as (process, _):
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)

    assert (process.returncode, said.strip()) == (130, "oncelog: interrupted")


def test_what_is_wrong_is_said_before_anything_is_served(shell: Shell, log: oncelog.Log, tmp_path: Path) -> None:
    assert "not an address to listen on" in shell.refused("exporter", "--listen", "9464", exit_code=2)
    none_there = Shell(tmp_path / "nothing").refused("exporter", "--listen", "127.0.0.1:0", exit_code=2)
    assert "there is no log here" in none_there


def test_a_missing_extra_is_named(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(sys.modules):
        if name.startswith(("prometheus_client", "oncelog.metrics.exposition")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)

    said = shell.refused("exporter", exit_code=2)

    assert "install oncelog[metrics]" in said
