"""The five-batch window agrees with a model that keeps every batch ever accepted."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from oncelog.errors import FatalError, InvalidTxnStateError, OutOfOrderSequenceError, ProducerFencedError
from oncelog.protocol.sequencing import (
    Duplicate,
    ProducerEntry,
    after_append,
    after_marker,
    check_append,
    sequence_add,
    sequence_distance,
)
from oncelog.types import MAX_SEQUENCE, ProducerIdAndEpoch

SEQUENCES = MAX_SEQUENCE + 1
PRODUCER_ID = 7


@dataclass(frozen=True)
class Request:
    """One thing that happens to the partition; `at` picks the sequence relative to what was accepted before."""

    kind: str
    at: int
    count: int
    epoch_step: int
    is_transactional: bool


@dataclass(frozen=True)
class Accepted:
    epoch: int
    base_sequence: int
    count: int
    offset: int


class Model:
    """Every accepted batch, in order, and nothing clever."""

    def __init__(self) -> None:
        self.accepted: list[Accepted] = []
        self.open_epoch: int | None = None

    @property
    def epoch(self) -> int:
        return self.accepted[-1].epoch if self.accepted else 0

    def of_epoch(self, epoch: int) -> list[Accepted]:
        return [batch for batch in self.accepted if batch.epoch == epoch]

    def next_sequence(self, epoch: int) -> int:
        batches = self.of_epoch(epoch)
        return (batches[0].base_sequence + sum(batch.count for batch in batches)) % SEQUENCES if batches else 0

    def verdict(
        self, epoch: int, base_sequence: int, count: int, *, transactional: bool
    ) -> int | type[FatalError] | None:
        """The offset of the duplicate, the error, or None to append."""
        if not self.accepted:
            return None if base_sequence == 0 or not transactional else OutOfOrderSequenceError
        if epoch < self.epoch:
            return ProducerFencedError
        for batch in self.of_epoch(epoch)[-5:]:
            if (batch.base_sequence, batch.count) == (base_sequence, count):
                return batch.offset
        if base_sequence != self.next_sequence(epoch):
            return OutOfOrderSequenceError
        if self.open_epoch is not None and not transactional:
            return InvalidTxnStateError
        return None


def owner(epoch: int) -> str:
    return f"/transactions/copier/{PRODUCER_ID}.{epoch}"


requests = st.builds(
    Request,
    kind=st.sampled_from(["next"] * 6 + ["again"] * 3 + ["gap", "zero", "marker", "expire"]),
    at=st.integers(0, 7),
    count=st.sampled_from([1, 2, 3, 2**30]),
    epoch_step=st.sampled_from([0] * 8 + [1, 1, -1]),
    is_transactional=st.sampled_from([True, True, False]),
)


def resolve(model: Model, request: Request, start: int) -> tuple[int, int, int]:
    """Epoch, base sequence and count of the batch that `request` stands for."""
    epoch = max(0, model.epoch + request.epoch_step)
    if request.kind == "again" and model.accepted:
        batch = model.accepted[-1 - request.at % len(model.accepted)]
        return epoch, batch.base_sequence, batch.count
    base_sequence = model.next_sequence(epoch) if model.accepted else start
    if request.kind == "gap":
        base_sequence = (base_sequence + 1 + request.at) % SEQUENCES
    if request.kind == "zero":
        base_sequence = 0
    return epoch, base_sequence, request.count


@given(st.lists(requests, max_size=40), st.sampled_from([0, 5, MAX_SEQUENCE - 2, MAX_SEQUENCE]))
def test_the_window_answers_as_the_whole_history_would(history: list[Request], start: int) -> None:
    """conformance: 22, 23, 24, 32, 34."""
    model, entry, log_end = Model(), None, 0
    for request in history:
        if request.kind == "marker" and entry is not None:
            entry, model.open_epoch = after_marker(entry, owner(model.epoch)), None
            continue
        if request.kind == "expire" and model.open_epoch is None:
            entry, model = None, Model()
            continue
        epoch, base_sequence, count = resolve(model, request, start)
        transactional = request.is_transactional
        expected = model.verdict(epoch, base_sequence, count, transactional=transactional)
        assert answer(entry, epoch, base_sequence, count, transactional=transactional) == expected
        if expected is None:
            writer = ProducerIdAndEpoch(PRODUCER_ID, epoch)
            path = owner(epoch) if transactional else None
            entry = after_append(entry, writer, base_sequence, count, base_offset=log_end, owner=path)
            model.accepted.append(Accepted(epoch, base_sequence, count, log_end))
            model.open_epoch = epoch if transactional else None
            log_end += count


def answer(
    entry: ProducerEntry | None, epoch: int, base_sequence: int, count: int, *, transactional: bool
) -> int | type[Exception] | None:
    producer = ProducerIdAndEpoch(PRODUCER_ID, epoch)
    try:
        verdict = check_append(entry, producer, base_sequence, count, transactional=transactional)
    except FatalError as error:
        return type(error)
    return verdict.base_offset if isinstance(verdict, Duplicate) else None


@given(st.integers(0, MAX_SEQUENCE), st.integers(0, MAX_SEQUENCE), st.integers(0, MAX_SEQUENCE))
def test_sequences_add_like_steps_on_a_circle(start: int, first: int, second: int) -> None:
    """conformance: 23."""
    middle = sequence_add(start, first)

    assert sequence_distance(start, middle) == first
    assert sequence_add(middle, second) == sequence_add(start, first + second)
    assert 0 <= middle <= MAX_SEQUENCE
