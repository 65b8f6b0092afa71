"""An operator beside a sink: `oncelog kafka txn abort` and `batch complete`, while drivers live or behind them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from driven_batches import FIRST, REWRITE, SECOND, World, progress, time_out_behind_the_decision
from oncelog.batches.offsets import GroupProgress
from oncelog.crash_points import CrashPoint
from oncelog.errors import NotPreparedError, RoundAbortedError
from oncelog.testing.target_contract import StoppedOnPurposeError, at, stop
from oncelog.types import TopicPartition
from oncelog_kafka.brokers import Brokers
from oncelog_kafka.crash_points import KafkaCrashPoint
from oncelog_kafka.errors import ParticipantLostError
from oncelog_kafka.ledger.ledger import KAFKA_LEDGERS
from oncelog_kafka.operations import inspection
from tests.support.connectors.kafka_sink import committed, numbered
from tests.support.servers.kafka import KafkaBroker, fresh_name


class SlowOperator(Brokers):
    """An operator's connection, with something that happens in between: before it lists the open transactions."""

    def __init__(self, broker: KafkaBroker, meanwhile: Callable[[], None]) -> None:
        super().__init__({"bootstrap_servers": broker.address})
        self._meanwhile = meanwhile

    def list_ids(self, states: Sequence[str] = ()) -> list[tuple[str, str]]:
        self._meanwhile()
        return super().list_ids(states)


def test_an_abort_beside_a_living_driver_leaves_alone_what_is_decided_meanwhile(world: World) -> None:
    """conformance: 52."""
    target = world.target()
    world.run(0, FIRST, target=target)

    def decide() -> None:
        with at(CrashPoint.ROUND_DECIDED, stop), pytest.raises(StoppedOnPurposeError):
            world.run(1, SECOND, target=target)

    operator = SlowOperator(world.broker, decide)
    assert inspection.abort_open(operator, world.store, world.prefix) == []
    operator.close()

    assert world.run(1, SECOND, run="run-2").is_replay
    assert world.values() == [*FIRST, *SECOND]


@pytest.mark.parametrize("point", [KafkaCrashPoint.WRITTEN, CrashPoint.ROUND_DECIDE])
def test_an_abort_takes_the_batch_from_a_living_driver_which_can_write_it_again(world: World, point: str) -> None:
    target = world.target()
    world.run(0, FIRST, target=target)

    with (
        at(point, lambda: inspection.abort_open(world.brokers, world.store, world.prefix)),
        pytest.raises((RoundAbortedError, NotPreparedError)),
    ):
        world.run(1, SECOND, target=target)
    assert world.open_ids() == []

    world.run(1, SECOND, target=target)
    assert world.values() == [*FIRST, *SECOND]


def test_an_abort_between_two_batches_gives_the_next_one_ids_of_its_own(world: World) -> None:
    target = world.target()
    world.run(0, FIRST, target=target)
    inspection.abort_open(world.brokers, world.store, world.prefix)
    world.run(1, SECOND, target=target)

    leases = [found.lease for found in KAFKA_LEDGERS.read_rounds(world.store, world.prefix).values()]
    assert len(set(leases)) == 2
    assert world.values() == [*FIRST, *SECOND]


def test_an_abort_while_a_lost_part_is_written_again_is_no_second_copy(world: World) -> None:
    time_out_behind_the_decision(world, **REWRITE)

    with (
        at(KafkaCrashPoint.REWRITTEN, lambda: inspection.abort_open(world.brokers, world.store, world.prefix)),
        pytest.raises(ParticipantLostError, match="restart the query, which writes and verifies them again"),
    ):
        world.run(0, FIRST, run="run-2", **REWRITE)
    assert world.values() == []

    world.run(0, FIRST, run="run-3", **REWRITE)
    assert world.values() == FIRST


def test_a_group_whose_offsets_were_given_up_is_brought_along_by_the_next_batch(world: World) -> None:
    source = world.broker.create_topic(fresh_name("source"))
    group = fresh_name("group")

    def offsets(start: int, end: int) -> GroupProgress[TopicPartition]:
        return progress(group, {source: {0: start}}, {source: {0: end}})

    world.run(0, FIRST, offsets=offsets(0, 20))
    with at(CrashPoint.ROUND_DECIDED, stop), pytest.raises(StoppedOnPurposeError):
        world.run(1, SECOND, offsets=offsets(20, 40))
    (carrier,) = [name for name in world.open_ids() if name.startswith(f"{world.prefix}-0-")]
    world.brokers.fence([carrier], 60_000)
    inspection.accept_loss(world.brokers, world.store, world.prefix)
    assert committed(world.broker, group, source) == {0: 20}

    world.run(2, numbered(5, first=40), run="run-2", offsets=offsets(40, 45))

    assert committed(world.broker, group, source) == {0: 45}
