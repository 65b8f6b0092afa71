"""A producer interrupted in the middle of a call (Ctrl-C, a time limit that raises), with which the program goes on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from types import FrameType

import pytest

from oncelog import clients
from oncelog.clients.accumulator import Receipt
from oncelog.clients.producer import Producer
from oncelog.clients.sender import Sender
from oncelog.clients.transaction_manager import TransactionManager
from oncelog.coordinator.transactions import TransactionCoordinator
from oncelog.errors import OncelogError
from oncelog.protocol import client_state
from oncelog.protocol.client_state import LEGAL_CALLS, ClientState
from oncelog.runtime import Log
from tests.support.log.logs import TOPIC, LogWorld, check_all_there, columns, started, values

pytestmark = pytest.mark.sampled

MODULES = ("accumulator", "delivery", "flush", "producer", "sender", "transaction_manager")
FILES = {f"{clients.__path__[0]}/{name}.py" for name in MODULES}

Sent = list[tuple[bytes, Receipt]]


class Interrupt:
    """A trace function that raises at one line of the producer's modules, counted as they run."""

    def __init__(self, at: int) -> None:
        self._lines_left = at

    def __call__(self, frame: FrameType, event: str, argument: object) -> Interrupt | None:
        if frame.f_code.co_filename not in FILES or is_finalizing(frame):
            return None
        if event == "line":
            if self._lines_left == 0:
                raise KeyboardInterrupt
            self._lines_left -= 1
        return self


def is_finalizing(frame: FrameType | None) -> bool:
    """Whether a producer is being collected, where Python swallows what is raised."""
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return frame is not None


def is_interrupted(at: int, call: Callable[[], object]) -> bool:
    """Whether the call ran as many lines that it was interrupted."""
    before = sys.gettrace()
    sys.settrace(Interrupt(at))
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def interrupt(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, *, behind: bool = False) -> None:
    """Interrupt where a function begins, or behind all it does, once."""
    real = getattr(owner, name)

    def interrupted(*arguments: object, **options: object) -> None:
        monkeypatch.setattr(owner, name, real)
        if behind:
            real(*arguments, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(owner, name, interrupted)


def write(producer: Producer, topic: str, sent: Sent) -> None:
    """Rows and columns, flushed and not."""
    sent.append((b"a", producer.send(topic, b"a", partition=0)))
    sent.append((b"b", producer.send(topic, b"b", partition=1)))
    sent.append((b"c", producer.send_batch(topic, columns(b"c", b"d"), partition=0)[0]))
    sent.append((b"e", producer.send(topic, b"e", partition=0)))
    producer.flush()
    sent.append((b"f", producer.send(topic, b"f", partition=0)))
    sent.append((b"g", producer.send(topic, b"g", partition=1)))


def write_transaction(producer: Producer, topic: str, sent: Sent) -> None:
    producer.begin_transaction()
    write(producer, topic, sent)
    producer.commit_transaction()


def write_and_flush(producer: Producer, topic: str, sent: Sent) -> None:
    write(producer, topic, sent)
    producer.flush()


def interrupted_transactions(log: Log, step: int) -> Iterator[tuple[str, Producer, Sent]]:
    """A transaction per line at which it may be interrupted, on a topic of its own."""
    for at in count(step=step):
        topic = f"topic-{at}"
        log.create_topic(topic, partitions=2)
        producer = started(log, topic)
        sent: Sent = []
        if not is_interrupted(at, partial(write_transaction, producer, topic, sent)):
            return
        yield topic, producer, sent


def is_legal(producer: Producer, call: str) -> bool:
    return call in LEGAL_CALLS[producer._transactions.state]


def write_next(producer: Producer, topic: str) -> tuple[bytes, Receipt]:
    with producer.transaction():
        return b"next", producer.send(topic, b"next", partition=0)


# Wherever it is interrupted -------------------------------------------------------------------------------------------

at_lines = pytest.mark.parametrize(
    "step", [pytest.param(29, id="some lines"), pytest.param(1, marks=pytest.mark.slow, id="all lines")]
)


@at_lines
def test_a_transaction_interrupted_anywhere_is_committed_whole_or_can_only_be_aborted(
    memory_world: LogWorld, step: int
) -> None:
    log = memory_world.log
    for topic, producer, sent in interrupted_transactions(log, step):
        if is_legal(producer, "commit_transaction"):
            producer.commit_transaction()
        if is_legal(producer, "abort_transaction"):
            producer.abort_transaction()
            sent.clear()
            assert values(log, topic=topic) == []
        check_all_there(log, topic, [*sent, write_next(producer, topic)])


@at_lines
def test_a_transaction_interrupted_anywhere_and_aborted_is_never_seen(memory_world: LogWorld, step: int) -> None:
    log = memory_world.log
    for topic, producer, _ in interrupted_transactions(log, step):
        if is_legal(producer, "abort_transaction"):
            producer.abort_transaction()
            assert values(log, topic=topic) == []


@at_lines
def test_a_flush_interrupted_anywhere_goes_on_with_the_same_records(memory_world: LogWorld, step: int) -> None:
    log = memory_world.log
    for at in count(step=step):
        topic = f"topic-{at}"
        log.create_topic(topic, partitions=2)
        sent: Sent = []
        with log.producer() as producer:
            was_interrupted = is_interrupted(at, partial(write_and_flush, producer, topic, sent))
            sent.append((b"next", producer.send(topic, b"next", partition=0)))
        check_all_there(log, topic, sent)
        if not was_interrupted:
            return


def test_a_producer_interrupted_anywhere_in_its_initialisation_is_initialised_again(memory_world: LogWorld) -> None:
    log = memory_world.log
    for at in count():
        producer = log.producer(transactional_id=f"id-{at}")
        if not is_interrupted(at, producer.init_transactions):
            return
        if is_legal(producer, "init_transactions"):
            producer.init_transactions()
        write_next(producer, TOPIC)[1].result()


# At one place ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_closed", [False, True], ids=["aborted", "closed"])
def test_an_abort_after_an_interrupted_commit_does_not_commit(
    log: Log, monkeypatch: pytest.MonkeyPatch, is_closed: bool
) -> None:
    producer = started(log)
    producer.begin_transaction()
    receipt = producer.send(TOPIC, b"unseen")
    interrupt(monkeypatch, client_state, "transition")
    with pytest.raises(KeyboardInterrupt):
        producer.commit_transaction()
    (producer.close if is_closed else producer.abort_transaction)()

    assert values(log) == []
    with pytest.raises(OncelogError, match="dropped because its transaction was aborted"):
        receipt.result()


def test_more_may_be_sent_after_a_commit_that_was_interrupted_before_it_was_asked(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = started(log)
    producer.begin_transaction()
    producer.send(TOPIC, b"a", partition=0)
    interrupt(monkeypatch, client_state, "transition")
    with pytest.raises(KeyboardInterrupt):
        producer.commit_transaction()
    producer.send(TOPIC, b"b", partition=0)
    producer.commit_transaction()

    assert values(log, 0) == [b"a", b"b"]


def test_an_interrupt_before_its_commit_is_asked_aborts_the_context(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    producer = started(log)
    interrupt(monkeypatch, Sender, "write_files")
    with pytest.raises(KeyboardInterrupt), producer.transaction():
        receipt = producer.send(TOPIC, b"unseen", partition=0)
    with producer.transaction():
        producer.send(TOPIC, b"next", partition=0)

    assert values(log) == [b"next"]
    with pytest.raises(OncelogError, match="interrupted") as raised:
        receipt.result()
    assert isinstance(raised.value.__cause__, KeyboardInterrupt)


@pytest.mark.parametrize("call", ["commit", "end_txn"])
@pytest.mark.parametrize("behind", [False, True], ids=["before", "behind"])
def test_an_interrupt_in_the_commit_of_the_context_leaves_the_same_commit_to_be_called_again(
    log: Log, monkeypatch: pytest.MonkeyPatch, behind: bool, call: str
) -> None:
    producer = started(log)
    interrupt(monkeypatch, TransactionCoordinator, call, behind=behind)
    with pytest.raises(KeyboardInterrupt), producer.transaction():
        receipt = producer.send(TOPIC, b"value", partition=0)
        if call == "end_txn":
            producer.flush()
    assert receipt.is_done
    producer.commit_transaction()

    assert values(log) == [b"value"]
    assert receipt.result().offset == 0


def test_an_interrupt_behind_a_commit_leaves_a_producer_that_goes_on(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    producer = started(log)
    interrupt(monkeypatch, TransactionManager, "_continue_as")
    with pytest.raises(KeyboardInterrupt), producer.transaction():
        producer.send(TOPIC, b"value", partition=0)
    assert producer._transactions.state is ClientState.COMMITTING_TRANSACTION
    producer.commit_transaction()
    with producer.transaction():
        producer.send(TOPIC, b"next", partition=0)

    assert values(log) == [b"value", b"next"]


def test_closing_after_an_interrupted_flush_sends_what_is_left(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt(monkeypatch, Sender, "append_step", behind=True)
    with log.producer() as producer:
        receipts = [producer.send(TOPIC, b"%d" % number, partition=0) for number in range(3)]
        with pytest.raises(KeyboardInterrupt):
            producer.flush()

    assert values(log) == [b"0", b"1", b"2"]
    assert [receipt.result().offset for receipt in receipts] == [0, 1, 2]
