"""What must hold of a query into simulated brokers: while it runs, and at its end."""

from __future__ import annotations

from collections.abc import Callable

from oncelog.testing.simulation.clients import number_of
from oncelog.testing.simulation.world import NETWORK, LawBrokenError, World
from oncelog_kafka.ledger import KAFKA_LEDGERS
from oncelog_kafka.participants import ONGOING
from oncelog_kafka.ports import CommittedOffset
from oncelog_kafka.testing.brokers import Cluster, Settings
from oncelog_kafka.testing.simulation.queries import GROUP, PREFIX, SOURCE, SinkQuery
from oncelog_kafka.testing.transactions import Identity, State


class GuardedCluster(Cluster):
    """Brokers that nobody may ask to abort what a decision names.

    A task's own init may: given up by its client and sent again, it can reach the brokers behind the decision. They
    cannot tell it from a new one, and the loss is named and rewritten like that of a time-out.

    Args:
        world: whose znodes hold the ledger.
        settings: see `Cluster`.
        marker_delay_ms: see `Cluster`.
    """

    def __init__(self, world: World, settings: Settings, *, marker_delay_ms: Callable[[], int]) -> None:
        super().__init__(world.wall_ms, settings, marker_delay_ms=marker_delay_ms)
        self._world = world

    def init(self, transactional_id: str, timeout_ms: int) -> tuple[str, Identity | None]:
        """See `Cluster`.

        Raises:
            LawBrokenError: the id's transaction is open, and a decision that is not carried out names it.
        """
        known = self.ids.get(transactional_id)
        is_open = known is not None and known.state is State.ONGOING
        if is_open and self._world.trace[-1].process != NETWORK and transactional_id in self._named():
            raise LawBrokenError(f"{transactional_id}: it is decided, not committed yet, and somebody aborts it")
        return super().init(transactional_id, timeout_ms)

    def _named(self) -> set[str]:
        rounds = KAFKA_LEDGERS.read_rounds(self._world.znodes.store, PREFIX).values()
        participants = [participant for one in rounds if one.is_unfinished for participant in one.participants]
        return {participant.transactional_id for participant in participants if not participant.is_lost}


class Watcher:
    """A `read_committed` reader that looks again and again."""

    def __init__(self, world: World, query: SinkQuery) -> None:
        self._world = world
        self._query = query
        self._seen: dict[int, list[tuple[int, int]]] = {}

    def look(self) -> None:
        """What was seen stays, and nothing is seen of a batch that is not decided.

        Raises:
            LawBrokenError: something else was found.
        """
        place = self._query.place
        found: dict[int, list[tuple[int, int]]] = {}
        for partition, offset, value in place.cluster.values(place.topic):
            found.setdefault(partition, []).append((offset, number_of(value)))
        for partition, before in self._seen.items():
            if found.get(partition, [])[: len(before)] != before:
                raise LawBrokenError(f"partition {partition}: what a reader saw has changed")
        self._seen = found
        ledger = KAFKA_LEDGERS.read(self._world.znodes.store, PREFIX)
        last = ledger.last.batch_id if ledger is not None and ledger.last is not None else -1
        batch_of = _batches(self._query)
        early = sorted({n for rows in found.values() for _, n in rows if batch_of[n] > last})
        if early:
            raise LawBrokenError(f"rows of a batch that is not decided are visible: {early}")
        for partition, rows in found.items():
            order = [batch_of[number] for _, number in rows]
            if order != sorted(order):
                raise LawBrokenError(f"partition {partition}: the batches are out of order: {order}")


def judge(query: SinkQuery) -> None:
    """After the last driver came to its end.

    Raises:
        LawBrokenError: a law does not hold.
    """
    place = query.place
    left = place.cluster.list_ids([ONGOING])
    if left:
        raise LawBrokenError(f"transactions are left open: {left}")
    place.cluster.settle()
    found = sorted(number_of(value) for _, _, value in place.cluster.values(place.topic))
    expected = set(_batches(query))
    given_up = {n for name in query.given_up for n in query.prepared.get(name, ())}
    missing, extra = expected - set(found) - given_up, set(found) - expected
    doubled = len(found) - len(set(found))
    if missing or extra or doubled:
        raise LawBrokenError(f"{missing=} {extra=} {doubled=}")
    for name in query.given_up:
        rows = set(query.prepared[name])
        if rows & set(found) not in (set(), rows):
            raise LawBrokenError(f"{name}: a part that was given up is there in part")
    _judge_group(query)


def _judge_group(query: SinkQuery) -> None:
    if not query.has_group:
        return
    place = SOURCE.topic, SOURCE.partition
    held = query.place.cluster.offsets(GROUP, [place])
    at = held.get(place) if isinstance(held, dict) else held
    last = query.checkpoint.end(len(query.checkpoint.batches) - 1)
    if not isinstance(at, CommittedOffset) or at.offset != last:
        raise LawBrokenError(f"the group stands at {at}, and the last committed batch ends at {last}")


def _batches(query: SinkQuery) -> dict[int, int]:
    batches = enumerate(query.checkpoint.batches)
    return {number: batch_id for batch_id, batch in batches for rows in batch for number in rows}
