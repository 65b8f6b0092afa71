"""What the brokers in memory add to real ones: virtual time, lost answers, coordinators that move."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

import pytest

from oncelog import metadata
from oncelog.batches.attempt import Batch
from oncelog.batches.rules import BatchRequest
from oncelog.errors import NotPreparedError
from oncelog.ports import ZnodeStore
from oncelog.znodes.memory import MemoryZnodeStore
from oncelog_kafka.errors import BrokerUnavailableError
from oncelog_kafka.options.sink_options import parse
from oncelog_kafka.patience import PATIENCE_MS, PatientBrokers
from oncelog_kafka.protocol.participants import Handover, Participant
from oncelog_kafka.protocol.ports import CommittedOffset, Unstable
from oncelog_kafka.sinks import stepwise
from oncelog_kafka.sinks.jobs import Job, Written
from oncelog_kafka.sinks.target import KafkaTarget
from simulation.kafka.brokers import GROUPS, Cluster, Settings, shard_of
from simulation.kafka.requests import NoAnswerError, SimulatedRequests
from simulation.kafka.tasks import KeptProducers, TaskProducer, Work
from simulation.kafka.transactions import Identity
from tests.support.log.wrapped import WrappedStore

T = TypeVar("T")

TOKEN = CommittedOffset(7, "token")
TIMEOUT_MS = 60_000
VALUES = [f"row-{number}".encode() for number in range(5)]


class VirtualClock:
    """`ports.Clock` that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.ms = 1_000_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms

    def sleep_ms(self, duration_ms: int) -> None:
        self.ms += duration_ms


class LosingLine:
    """Loses so many requests, then so many answers, and one answer of so many for good."""

    def __init__(self) -> None:
        self.requests = self.answers = self.one_answer_of = 0
        self._count = 0

    def carry(self, what: str, request: Callable[[], T], *, changes: bool = True) -> T:
        if changes and self.requests:
            self.requests -= 1
            raise NoAnswerError(what)
        answer = request()
        if changes and self.answers:
            self.answers -= 1
            raise NoAnswerError(what)
        self._count += changes
        if changes and self.one_answer_of and self._count % self.one_answer_of == 0:
            raise NoAnswerError(what)
        return answer


@dataclass
class World:
    version: int
    clock: VirtualClock = field(default_factory=VirtualClock)
    line: LosingLine = field(default_factory=LosingLine)

    def __post_init__(self) -> None:
        self.settings = Settings(version=self.version)
        self.cluster = Cluster(self.clock.now_ms, self.settings)
        self.cluster.create_topic("out", 2)
        self.brokers = PatientBrokers(SimulatedRequests(self.cluster, self.line), self.clock)

    def prepare(
        self,
        name: str = "id",
        *,
        timeout_ms: int = TIMEOUT_MS,
        kept: KeptProducers | None = None,
        handover: Handover | None = None,
    ) -> Participant:
        """What a task does with five rows over two partitions."""
        rows = [(("out", number % 2), value) for number, value in enumerate(VALUES)]
        work = Work(name, 0, rows, {"tokens": {("out", 0): TOKEN}}, "out", handover=handover)
        return TaskProducer(self.cluster, self.line, self.clock, timeout_ms, kept).prepare(work)

    def values(self) -> list[bytes]:
        return sorted(value for _, _, value in self.cluster.values("out"))

    def token(self) -> object:
        return self.brokers.offsets({"tokens": [("out", 0)]})["tokens"].get(("out", 0))


@pytest.fixture(params=[1, 2])
def world(request: pytest.FixtureRequest) -> World:
    return World(request.param)


def test_what_a_task_prepared_shows_with_its_commit_and_its_token_with_it(world: World) -> None:
    prepared = world.prepare()
    assert (world.values(), world.token()) == ([], Unstable())

    assert world.brokers.commit([prepared])[0].answer == "NONE"

    assert (world.values(), world.token()) == (VALUES, TOKEN)
    assert world.brokers.describe(["id"])["id"].state == "CompleteCommit"


def test_markers_come_later_than_the_answer_and_each_in_its_own_time(world: World) -> None:
    delays_ms = iter([10, 30, 20, 5])
    world.cluster = Cluster(world.clock.now_ms, world.settings, marker_delay_ms=lambda: next(delays_ms))
    world.cluster.create_topic("out", 2)
    world.brokers = PatientBrokers(SimulatedRequests(world.cluster), world.clock)
    prepared = world.prepare()
    world.brokers.commit([prepared])

    seen = []
    for _ in range(5):
        known = world.brokers.describe(["id"])["id"]
        seen.append((known.state, len(known.partitions), len(world.values())))
        world.clock.ms += 10

    assert seen[0] == ("PrepareCommit", 3, 0)
    assert {rows for _, _, rows in seen} == {0, 2, 5}  # one partition before the other
    assert seen[-1] == ("CompleteCommit", 0, 5)


def test_what_is_open_beyond_its_time_is_aborted_and_its_commit_refused(world: World) -> None:
    prepared = world.prepare(timeout_ms=5_000)
    world.clock.ms += 5_000 + world.settings.clean_up_ms

    assert world.brokers.describe(["id"])["id"].state == "CompleteAbort"
    (ended,) = world.brokers.commit([prepared])
    assert ended.answer == ("PRODUCER_FENCED" if world.version == 1 else "INVALID_TXN_STATE")
    assert (world.values(), world.token()) == ([], None)


def test_a_commit_whose_answer_is_lost_is_done_and_one_whose_request_is_lost_is_not(world: World) -> None:
    prepared = world.prepare()
    world.line.requests = world.line.answers = 1

    assert world.brokers.commit([prepared])[0].answer == "NETWORK_EXCEPTION"
    assert world.values() == []
    assert world.brokers.commit([prepared])[0].answer == "NETWORK_EXCEPTION"
    assert world.values() == VALUES
    assert world.brokers.commit([prepared])[0].answer == "NONE"


@pytest.mark.parametrize("one_of", [2, 3])
def test_a_task_whose_answers_get_lost_writes_each_row_once(world: World, one_of: int) -> None:
    world.line.one_answer_of = one_of
    prepared = world.prepare()
    world.line.one_answer_of = 0
    world.brokers.commit([prepared])

    assert (world.values(), world.token()) == (VALUES, TOKEN)


def test_who_is_fenced_writes_nothing_more(world: World) -> None:
    prepared = world.prepare()
    world.brokers.fence(["id"], TIMEOUT_MS)
    who = Identity("id", prepared.producer_id, prepared.epoch)

    refused = world.cluster.produce(who, ("out", 0), [b"late"], 3, version=world.version)

    assert refused == "INVALID_PRODUCER_EPOCH"
    assert (world.values(), world.brokers.list_ids(["Ongoing"])) == ([], [])


def test_what_a_task_may_not_do_fails_it(world: World) -> None:
    with pytest.raises(NotPreparedError) as failed:
        world.prepare(timeout_ms=world.settings.max_timeout_ms + 1)
    assert failed.value.fields["answer"] == "INVALID_TRANSACTION_TIMEOUT"


def test_requests_wait_for_coordinators_that_move(world: World) -> None:
    prepared = world.prepare()
    before_ms = world.clock.ms
    world.cluster.move_coordinators(shard_of("id"), absent_ms=2_000, loading_ms=3_000)

    assert world.brokers.commit([prepared])[0].answer == "NOT_COORDINATOR"
    assert world.brokers.describe(["id"])["id"].state == "Ongoing"
    assert world.clock.ms >= before_ms + 5_000
    assert world.brokers.commit([prepared])[0].answer == "NONE"


def test_a_listing_leaves_out_ids_that_nobody_coordinates_and_waits_for_those_that_are_loaded(world: World) -> None:
    world.prepare()
    world.cluster.move_coordinators(shard_of("id"), absent_ms=2_000, loading_ms=3_000)

    assert world.brokers.list_ids() == []
    world.clock.ms += 2_000
    assert world.brokers.list_ids() == [("id", "Ongoing")]


def test_patience_ends_by_the_clock_that_was_handed_in(world: World) -> None:
    before_ms = world.clock.ms
    world.cluster.move_coordinators(shard_of("id"), absent_ms=10 * PATIENCE_MS, loading_ms=1)

    with pytest.raises(BrokerUnavailableError):
        world.brokers.fence(["id"], TIMEOUT_MS)
    assert PATIENCE_MS < world.clock.ms - before_ms < 2 * PATIENCE_MS


def test_ids_and_offsets_are_forgotten_in_their_time_but_no_open_transaction_is(world: World) -> None:
    ended, still_open = world.prepare("ended"), world.prepare("open", timeout_ms=900_000)
    world.brokers.commit([ended])
    world.settings.expiration_ms = world.settings.retention_ms = 100_000
    world.clock.ms += 100_000

    assert world.brokers.commit([ended])[0].answer == "INVALID_PRODUCER_ID_MAPPING"
    assert world.token() == Unstable()
    assert world.brokers.commit([still_open])[0].answer == "NONE"
    assert [name for name, _ in world.brokers.list_ids()] == ["open"]
    assert world.token() is None
    assert world.values() == sorted(2 * VALUES)


def test_a_producer_that_used_up_its_epochs_gets_another_id_and_its_commits_may_come_again(world: World) -> None:
    world.settings.max_epoch = 3
    prepared = []
    for _ in range(6):
        prepared.append(world.prepare())
        assert world.brokers.commit(prepared[-1:])[0].answer == "NONE"
        assert world.brokers.commit(prepared[-1:])[0].answer == "NONE"

    assert len({one.producer_id for one in prepared}) > 1
    assert max(one.epoch for one in prepared) < world.settings.max_epoch
    assert world.values() == sorted(6 * VALUES)


def test_a_kept_producer_goes_on_with_another_id_when_it_has_used_up_its_epochs() -> None:
    world, kept = World(2), KeptProducers()
    world.settings.max_epoch = 3
    prepared, handover = [world.prepare(kept=kept)], None
    for _ in range(6):
        (ended,) = world.brokers.commit(prepared[-1:])
        assert ended.following is not None
        handover = Handover(prepared[-1].producer, ended.following)
        prepared.append(world.prepare(kept=kept, handover=handover))
        assert prepared[-1].producer == ended.following

    assert len({one.producer_id for one in prepared}) > 2
    assert max(one.epoch for one in prepared) < world.settings.max_epoch
    assert world.values() == sorted(6 * VALUES)


@dataclass(frozen=True)
class OneTask:
    """A batch's job, whose task a test runs itself."""

    def parallelism(self) -> int:
        return 1

    def speculates(self) -> bool:
        return False

    def run(self, settings: Mapping[str, Any], buckets: int | None) -> NoReturn:
        raise NotImplementedError


class SlowStore(WrappedStore):
    """A store of which one call takes its time."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(MemoryZnodeStore())
        self._clock = clock
        self.takes_ms = 0
        metadata.ensure_format(self, None, None, create=True)

    def inner(self) -> ZnodeStore:
        self._clock.sleep_ms(self.takes_ms)
        self.takes_ms = 0
        return super().inner()


@pytest.mark.parametrize(("takes_ms", "is_decided"), [(TIMEOUT_MS // 2, True), (TIMEOUT_MS - 1_000, False)])
def test_a_driver_that_waits_for_its_ledger_behind_the_tasks_counts_that_as_their_time(
    world: World, takes_ms: int, is_decided: bool
) -> None:
    """The second step of two, which was told when the tasks began."""
    store, sink = SlowStore(world.clock), {"topic": "out", "transactionalIdPrefix": "q", "znodes": "simulated"}
    timeout = {"transactionTimeoutMs": str(TIMEOUT_MS)}
    target = KafkaTarget(store, world.brokers, parse({"kafka.bootstrap.servers": "simulated:1", **sink, **timeout}))
    batch = Batch[Job](BatchRequest("q", "query", "sink", "run", 0, "offsets"), OneTask())
    planned = stepwise.plan(target, batch)
    assert isinstance(planned, stepwise.Planned)
    prepared = world.prepare(f"q-0-{planned.settings['lease']}.0.0")
    world.clock.ms += (ran_ms := 100)
    store.takes_ms = takes_ms

    with nullcontext() if is_decided else pytest.raises(NotPreparedError, match="it times out in 900 ms"):
        stepwise.complete(target, batch, planned.held, Written((prepared,), is_retried=False), ran_ms)

    assert world.values() == (VALUES if is_decided else [])


def test_brokers_tell_their_settings(world: World) -> None:
    assert world.brokers.broker_setting("offsets.retention.minutes") == 7 * 24 * 60
    assert world.brokers.broker_setting("transactional.id.expiration.ms") == 7 * 24 * 3_600_000
    assert world.brokers.broker_setting("transaction.max.timeout.ms") == 15 * 60_000
    assert (world.brokers.partitions_of("out"), world.brokers.partitions_of("none")) == (2, None)


def test_offsets_of_a_transaction_are_in_one_partition_of_the_brokers_own(world: World) -> None:
    world.prepare()

    assert set(world.brokers.describe(["id"])["id"].partitions) == {"out-0", "out-1", f"{GROUPS[0]}-{GROUPS[1]}"}
