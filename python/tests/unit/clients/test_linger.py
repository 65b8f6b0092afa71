"""Records leave a producer without a further call, and a program that ends loses none of them in silence."""

from __future__ import annotations

import gc
import logging
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

import oncelog
from oncelog.clients.accumulator import Receipt
from oncelog.clients.linger import PAUSE_SHARE, Linger
from oncelog.clients.producer import Producer
from oncelog.errors import FileWriteError, RetriableError, UnknownTopicError
from oncelog.limits import DEFAULT_LINGER_MS
from oncelog.runtime import Log
from tests.support.harness.waiting import until
from tests.support.log.faulty import Fault, FaultyStore
from tests.support.log.logs import (
    TOPIC,
    DrivenTime,
    LogWorld,
    check_all_there,
    columns,
    full_disk,
    lso,
    started,
    values,
    write_open,
)

# Programs -------------------------------------------------------------------------------------------------------------

LONG = "linger_ms=600_000"
"""Longer than any program here lives."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with oncelog.open(tmp_path / "log") as log:
        log.create_topic(TOPIC)
    return tmp_path / "log"


def program(folder: Path, *lines: str) -> subprocess.CompletedProcess[str]:
    """Run lines of a program that has opened the log, to its end."""
    source = "\n".join(["import os, sys, oncelog", f"log = oncelog.open({str(folder)!r})", *lines])
    paths = {"PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "-c", source]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | paths, timeout=120, check=False)


def found(folder: Path) -> list[bytes | None]:
    with oncelog.open(folder) as log:
        return values(log)


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("linger", ["", LONG], ids=["default", "long"])
@pytest.mark.parametrize(
    ("ending", "code"), [("", 0), ("sys.exit(3)", 3), ("raise ZeroDivisionError", 1)], ids=["end", "exit", "exception"]
)
def test_a_program_that_ends_after_a_send_has_sent_it(folder: Path, linger: str, ending: str, code: int) -> None:
    done = program(folder, f"producer = log.producer({linger})", f"producer.send({TOPIC!r}, b'sent')", ending)

    assert (done.returncode, found(folder)) == (code, [b"sent"]), done.stderr
    assert "lost" not in done.stderr


@pytest.mark.slow
def test_a_child_of_multiprocessing_that_ends_after_a_send_has_sent_it(folder: Path) -> None:
    done = program(
        folder,
        "import multiprocessing",
        "def work():",
        f"    producer = oncelog.open({str(folder)!r}).producer({LONG})",
        f"    producer.send({TOPIC!r}, b'sent')",
        "    globals()['kept'] = producer",
        "child = multiprocessing.get_context('fork').Process(target=work)",
        "child.start()",
        "child.join()",
        "sys.exit(child.exitcode)",
    )

    assert (done.returncode, found(folder)) == (0, [b"sent"]), done.stderr


@pytest.mark.slow
def test_a_program_that_ends_in_a_transaction_says_how_many_records_are_lost_and_holds_no_reader_back(
    folder: Path,
) -> None:
    done = program(
        folder,
        "producer = log.producer(transactional_id='copier')",
        "producer.init_transactions()",
        "producer.begin_transaction()",
        f"for _ in range(3): producer.send({TOPIC!r}, b'lost')",
        "producer.flush()",
        f"for _ in range(2): producer.send({TOPIC!r}, b'lost')",
    )

    assert "5 records are lost" in done.stderr
    assert "transactional_id='copier'" in done.stderr
    with oncelog.open(folder) as log:
        assert values(log) == []
        assert lso(log) > 0


@pytest.mark.slow
def test_a_program_that_ends_before_it_hears_of_a_failed_flush_says_how_many_records_are_lost(folder: Path) -> None:
    done = program(
        folder,
        "import time",
        f"producer, late = log.producer(), log.producer({LONG})",
        "for each in (producer, late):",
        "    log.create_topic(name := f'gone-{id(each)}')",
        "    for _ in range(3): each.send(name, b'lost')",
        "    log.admin.delete_topic(name)",
        "time.sleep(0.2)",
    )

    assert done.stderr.count("3 records are lost: the topic was deleted") == 2, done.stderr


@pytest.mark.slow
def test_a_forked_child_that_ends_sends_nothing_of_its_parents_and_says_nothing(folder: Path) -> None:
    done = program(
        folder,
        f"producer, opened = log.producer({LONG}), log.producer(transactional_id='copier')",
        "opened.init_transactions()",
        "opened.begin_transaction()",
        f"for each in (producer, opened): each.send({TOPIC!r}, b'parent')",
        "child = os.fork()",
        "if child == 0: sys.exit(0)",
        "os.waitpid(child, 0)",
        f"assert log.consumer(auto_offset_reset='earliest').end_offsets([oncelog.TopicPartition({TOPIC!r}, 0)]) == "
        f"{{oncelog.TopicPartition({TOPIC!r}, 0): 0}}",
        "opened.commit_transaction()",
    )

    assert (done.returncode, found(folder)) == (0, [b"parent"] * 2), done.stderr
    assert "lost" not in done.stderr


def test_a_record_leaves_a_living_process_without_a_further_call(folder: Path) -> None:
    with oncelog.open(folder) as log:
        producer = log.producer()
        receipt = producer.send(TOPIC, b"sent")
        until(lambda: receipt.is_done)

        assert found(folder) == [b"sent"]


def test_a_producer_that_nobody_names_any_more_sends_what_it_took(folder: Path) -> None:
    with oncelog.open(folder) as log:
        log.producer().send(TOPIC, b"sent")
        gc.collect()
        until(lambda: found(folder) == [b"sent"])


def test_a_producer_that_nobody_names_any_more_says_how_many_records_it_could_not_send(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def is_told() -> bool:
        gc.collect()
        return "2 records are lost: the topic was deleted" in caplog.text

    with oncelog.open(folder) as log:
        log.create_topic("gone")
        producer = log.producer(linger_ms=200)
        for _ in range(2):
            producer.send("gone", b"lost")
        del producer
        log.admin.delete_topic("gone")
        until(is_told)


def test_a_log_that_is_closed_has_its_producers_send_what_they_took(folder: Path) -> None:
    with oncelog.open(folder) as log:
        producer = log.producer(linger_ms=600_000)
        receipt = producer.send(TOPIC, b"sent")

    assert receipt.result().offset == 0
    assert found(folder) == [b"sent"]


def test_a_log_that_is_closed_in_an_open_transaction_says_how_many_records_are_lost(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with oncelog.open(folder) as log:
        producer = started(log)  # kept: one that nobody names any more is not closed, but told of
        write_open(producer, b"a", b"b")

    assert "2 records are lost" in caplog.text
    with oncelog.open(folder) as log:
        assert lso(log) > 0


def test_a_transaction_whose_producer_nobody_names_any_more_is_told_of(
    log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        producer = started(log, "dropped")
        producer.begin_transaction()
        producer.send(TOPIC, b"lost")
        del producer
        gc.collect()

    assert "1 record is lost" in caplog.text
    assert "transactional_id='dropped'" in caplog.text


# Of a moment ----------------------------------------------------------------------------------------------------------


def test_a_record_waits_for_others_as_long_as_the_linger_says(world: LogWorld) -> None:
    producer = world.log.producer(linger_ms=20)
    receipts = [producer.send(TOPIC, b"a", partition=0), *producer.send_batch(TOPIC, columns(b"b"), partition=0)]
    world.time.pass_ms(19)
    assert not any(receipt.is_done for receipt in receipts)
    world.time.pass_ms(1)
    assert all(receipt.is_done for receipt in receipts)
    assert values(world.log) == [b"a", b"b"]

    producer.send(TOPIC, b"c", partition=0)
    world.time.pass_ms(DEFAULT_LINGER_MS * 10)
    assert values(world.log) == [b"a", b"b", b"c"]


def test_in_a_transaction_nothing_leaves_before_a_call(world: LogWorld) -> None:
    producer = started(world.log)
    with producer.transaction():
        receipt = producer.send(TOPIC, b"a")
        world.time.pass_ms(60_000)
        assert not receipt.is_done

    assert values(world.log) == [b"a"]


def test_a_flush_that_takes_long_is_followed_by_a_longer_pause() -> None:
    time = DrivenTime()
    linger = Linger(time.background, time, linger_ms=5, delivery_timeout_ms=1000)
    begun_ms: list[int] = []

    def flush() -> bool:
        begun_ms.append(time.durations_ms)
        time.sleep_ms(20)
        return len(begun_ms) < 3

    linger.begin(flush)
    for _ in range(1000):
        time.pass_ms(1)
    assert begun_ms == [5, 25 + PAUSE_SHARE * 20, 45 + PAUSE_SHARE * 40]


# Failures -------------------------------------------------------------------------------------------------------------


def test_what_fails_in_the_background_is_raised_by_the_next_call_and_by_the_receipt(world: LogWorld) -> None:
    files = full_disk(world)
    with world.open().producer() as producer:
        receipt = producer.send(TOPIC, b"dropped", partition=0)
        files.is_full = True
        world.time.pass_ms(DEFAULT_LINGER_MS)
        files.is_full = False
        with pytest.raises(FileWriteError):
            producer.send(TOPIC, b"not taken", partition=0)
        producer.send(TOPIC, b"next", partition=0)

    with pytest.raises(FileWriteError):
        receipt.result()
    assert values(world.log) == [b"next"]


@pytest.mark.parametrize("call", [Producer.flush, Producer.close])
def test_a_flush_sends_what_is_left_before_it_raises_what_failed_in_the_background(
    world: LogWorld, call: Callable[[Producer], None]
) -> None:
    world.log.create_topic("gone")
    producer = world.log.producer()
    producer.send("gone", b"dropped")
    world.log.admin.delete_topic("gone")
    world.time.pass_ms(DEFAULT_LINGER_MS)
    with pytest.raises(UnknownTopicError):
        call(producer)
    call(producer)

    assert values(world.log) == []


def test_a_flush_in_the_background_waits_for_the_call_that_is_under_way() -> None:
    time, flushes = DrivenTime(), list[str]()
    linger = Linger(time.background, time, linger_ms=1, delivery_timeout_ms=1000)

    def flush() -> bool:
        flushes.append("done")
        return False

    linger.begin(flush)
    thread = threading.Thread(target=time.pass_ms, args=[1], daemon=True)
    with linger.lock:
        thread.start()
        thread.join(0.3)
        assert flushes == []
    thread.join()

    assert flushes == ["done"]


@pytest.mark.parametrize("fault", [Fault.UNAVAILABLE, Fault.LOST_REQUEST, Fault.LOST_REPLY])
def test_what_got_no_answer_in_the_background_is_sent_again_until_it_is_there_once(
    world: LogWorld, fault: Fault
) -> None:
    store = FaultyStore(world.store())
    producer = world.open(store).producer()
    receipt = producer.send(TOPIC, b"a", partition=0)
    store.fail_next(*[fault] * 7)
    for _ in range(10):
        world.time.pass_ms(1000)

    assert receipt.is_done
    producer.send(TOPIC, b"b", partition=0)
    producer.close()
    assert values(world.log) == [b"a", b"b"]


def test_a_store_that_is_away_longer_than_the_delivery_timeout_is_told_of_once_and_nothing_is_lost(
    world: LogWorld,
) -> None:
    store = FaultyStore(world.store())
    producer = world.open(store).producer(delivery_timeout_ms=2000)
    receipt = producer.send(TOPIC, b"a", partition=0)
    store.fail_next(*[Fault.UNAVAILABLE] * 1000)
    for _ in range(5):
        world.time.pass_ms(1000)
    with pytest.raises(RetriableError):
        producer.send(TOPIC, b"not taken", partition=0)
    producer.send(TOPIC, b"b", partition=0)
    store.fail_next()
    world.time.pass_ms(1000)

    assert receipt.result().offset == 0
    assert values(world.log) == [b"a", b"b"]
    producer.flush()


@pytest.mark.slow
def test_records_interrupted_by_signals_beside_flushes_in_the_background_are_there_once(folder: Path) -> None:
    """Some calls are interrupted while they wait for such a flush, some while they flush themselves."""
    done = program(
        folder, "from tests.unit.clients.test_linger import send_under_signals", "send_under_signals(log, seed=4)"
    )

    assert done.returncode == 0, done.stderr


def send_under_signals(log: Log, seed: int) -> None:
    """In a program of its own: a file that is open for a moment when the signal comes is left to the collector."""
    chance = random.Random(seed)
    armed = [False]

    def interrupt(number: int, frame: FrameType | None) -> None:
        if armed[0]:
            armed[0] = False
            raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)
    producer = log.producer(linger_ms=1)
    producer.send(TOPIC, b"first").result()  # a module that is imported now is interrupted by nothing
    sent: list[tuple[bytes, Receipt]] = []
    interruptions = 0
    for number in range(400):
        try:
            armed[0] = True
            signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.0001, 0.01))
            for at in range(50):
                value = b"%d-%d" % (number, at)
                sent.append((value, producer.send(TOPIC, value)))
            producer.flush()
        except KeyboardInterrupt:
            interruptions += 1
        armed[0] = False
    producer.flush()
    check_all_there(log, TOPIC, sent)
    assert interruptions > 20
