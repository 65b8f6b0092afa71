"""What must be true of a query that writes to simulated brokers, while it runs and at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from oncelog.limits import TRANSACT_DEADLINE_MS
from oncelog.ports import Create, Op, Set
from oncelog.types import Outcome
from oncelog_kafka.ledger.ledger import KAFKA_LEDGERS
from oncelog_kafka.protocol.kafka_rounds import KafkaRound, decode_round
from oncelog_kafka.protocol.participants import ONGOING, Participant, check_age_ms, margin_ms
from oncelog_kafka.protocol.ports import CommittedOffset
from simulation.clients import number_of
from simulation.errors import LawBrokenError
from simulation.kafka.cluster import PREFIX, GuardedCluster
from simulation.kafka.queries import GROUP, SOURCE, SinkQuery
from simulation.kafka.transactions import Identity
from simulation.world import DELIVERED_WITHIN_MS, STARTED_MS, World

_ROUNDS = KAFKA_LEDGERS.round_path(PREFIX, 0).rpartition("/")[0] + "/"


class Auditor:
    """Checks every decision when it is written: its driver must have checked each of the participants.

    Args:
        world: its znodes contain the ledger.
        has_sound_clocks: whether no clock jumps; then each participant must have had its margin left.
        on_decision: called with each new decision.
    """

    def __init__(
        self,
        world: World,
        cluster: GuardedCluster,
        on_decision: Callable[[KafkaRound], None],
        *,
        has_sound_clocks: bool,
    ) -> None:
        self._world = world
        self._cluster = cluster
        self._on_decision = on_decision
        self._has_sound_clocks = has_sound_clocks
        self._decided: set[str] = set()
        self._named: set[str] = set()
        self._look_before = world.on_write
        world.on_write = self.look

    def look(self, ops: Sequence[Op]) -> None:
        """Check what was written.

        Raises:
            LawBrokenError: a decision names a participant that its driver did not check, or not in time.
        """
        self._look_before(ops)
        for found in _decisions(ops):
            if found.nonce not in self._decided:
                self._decided.add(found.nonce)
                self._on_decision(found)
            for participant in found.participants:
                if participant.transactional_id not in self._named:
                    self._named.add(participant.transactional_id)
                    self._judge(participant)

    def _judge(self, one: Participant) -> None:
        who = Identity(one.transactional_id, one.producer_id, one.epoch)
        look = self._cluster.looks.get(who)
        if look is None:
            raise LawBrokenError(f"{who}: it is decided, and nobody has checked whether it is open")
        known = self._cluster.ids.get(one.transactional_id)
        timeout_ms = known.timeout_ms if known is not None else 0
        age_ms = STARTED_MS + self._world.scheduler.now_ms - look.at_ms
        if age_ms > check_age_ms(timeout_ms) + TRANSACT_DEADLINE_MS + DELIVERED_WITHIN_MS + self._unnoticed_ms():
            raise LawBrokenError(f"{who}: it is decided after a check that is {age_ms} ms old")
        if self._has_sound_clocks and look.left_ms + self._unnoticed_ms() < margin_ms(timeout_ms):
            raise LawBrokenError(f"{who}: it is decided, although it had only {look.left_ms} ms left")

    def _unnoticed_ms(self) -> int:
        """How long a driver may stand still without noticing it: what timed out meanwhile is named as lost.

        Beside a bucket its clocks stand still with it, and a put cannot be taken back. Other stores ask for the time
        under a lock, or are simulated as if they did.
        """
        nature = self._world.nature
        return nature.pause_max_ms if nature.is_in_bucket else 0


def _decisions(ops: Iterable[Op]) -> Iterator[KafkaRound]:
    for op in ops:
        if isinstance(op, (Create, Set)) and op.path.startswith(_ROUNDS):
            found = decode_round(op.path, op.data)
            if found.outcome is Outcome.COMMIT:
                yield found


class Watcher:
    """A `read_committed` reader that reads again and again."""

    def __init__(self, world: World, query: SinkQuery) -> None:
        self._world = world
        self._query = query
        self._seen: dict[int, list[tuple[int, int]]] = {}

    def look(self) -> None:
        """Read: rows that were seen before must still be there, and no undecided batch may be visible.

        Raises:
            LawBrokenError: one of these is not true.
        """
        place = self._query.place
        found: dict[int, list[tuple[int, int]]] = {}
        for partition, offset, value in place.cluster.values(place.topic):
            found.setdefault(partition, []).append((offset, number_of(value)))
        for partition, before in self._seen.items():
            if found.get(partition, [])[: len(before)] != before:
                raise LawBrokenError(f"partition {partition}: what a reader saw has changed")
        self._seen = found
        batch_of, decided = _batches(self._query), self._query.decided()
        early = sorted({n for rows in found.values() for _, n in rows if batch_of.get(n, decided) >= decided})
        if early:
            raise LawBrokenError(f"rows of a batch that is not decided are visible: {early}")
        for partition, rows in found.items():
            order = [batch_of[number] for _, number in rows]
            if order != sorted(order):
                raise LawBrokenError(f"partition {partition}: the batches are out of order: {order}")


def judge(query: SinkQuery) -> None:
    """Check everything after the last driver has ended.

    Raises:
        LawBrokenError: a law is broken.
    """
    place, given_up = query.place, query.operator.given_up
    left = place.cluster.list_ids([ONGOING])
    if left:
        raise LawBrokenError(f"transactions are left open: {left}")
    place.cluster.settle()
    found = sorted(number_of(value) for _, _, value in place.cluster.values(place.topic))
    expected = set(_batches(query))
    missing_by_loss = {n for name in given_up for n in query.prepared.get(name, ())}
    missing, extra = expected - set(found) - missing_by_loss, set(found) - expected
    doubled = len(found) - len(set(found))
    if missing or extra or doubled:
        raise LawBrokenError(f"{missing=} {extra=} {doubled=}")
    for name in given_up:
        rows = set(query.prepared[name])
        if rows & set(found) not in (set(), rows):
            raise LawBrokenError(f"{name}: a part that was given up is partly visible")
    _judge_group(query)


def _judge_group(query: SinkQuery) -> None:
    if not query.has_group:
        return
    place = SOURCE.topic, SOURCE.partition
    held = query.place.cluster.offsets(GROUP, [place])
    at = held.get(place) if isinstance(held, dict) else held
    last = query.end(len(query.source) - 1)
    if not isinstance(at, CommittedOffset) or at.offset != last:
        raise LawBrokenError(f"the group is at {at}, and the last committed batch ends at {last}")


def _batches(query: SinkQuery) -> dict[int, int]:
    batches = enumerate(query.source)
    return {number: batch for batch, rows_of in batches for rows in rows_of for number in rows}
