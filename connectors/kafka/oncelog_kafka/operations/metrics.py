"""Metrics of a cluster's transactions and of the sinks that write to it: what ``oncelog kafka exporter`` serves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from oncelog.metrics import catalogue
from oncelog.metrics.alerts import ALERTS as COMMON_ALERTS
from oncelog.metrics.alerts import HELD_SECONDS, Alert
from oncelog.metrics.catalogue import Metric, gauge
from oncelog.metrics.dashboards import render_dashboard
from oncelog.metrics.ledgers import read_ledgers
from oncelog.metrics.reading import Holder, Reading
from oncelog.ports import ZnodeStore
from oncelog_kafka.brokers import Brokers
from oncelog_kafka.brokers.overview import KafkaOverview
from oncelog_kafka.ledger.ledger import KAFKA_LEDGERS
from oncelog_kafka.ledger.ledger_store import foreign_records
from oncelog_kafka.operations.inspection import HANGING_BEYOND_MS
from oncelog_kafka.operations.left_open import PARTITIONS, LeftOpen
from oncelog_kafka.protocol.participants import ONGOING, Listed, ParticipantId, Transaction, of_prefix

STATES: Final = (
    "Empty",
    ONGOING,
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "PrepareEpochFence",
    "Dead",
)
"""Kafka's names. One that a newer broker has is shown, too."""

TRANSACTIONS = gauge("oncelog_kafka_transactions", "Transactional ids by state, as the coordinators list them", "state")
HANGING = gauge(
    "oncelog_kafka_transactions_hanging",
    "Transactions that are open beyond their timeout, although their coordinator should have aborted them",
    alert="OncelogKafkaTransactionHangs",
)
OLDEST_OPEN = gauge(
    "oncelog_kafka_transactions_oldest_open_age_seconds", "Age of the oldest open transaction; 0 for none"
)
UNDECIDED_AGE = gauge(
    "oncelog_kafka_topic_undecided_age_seconds",
    "Age of the oldest open transaction with data in the topic, which blocks its readers; absent for none",
    "topic",
    alert="OncelogKafkaReadersStandStill",
)
FOREIGN = gauge(
    "oncelog_kafka_ledger_foreign_records",
    "Records of other programs in the ledger's topic, which are ignored, as far as the exporter has read the topic; "
    "0 if the ledger is not in a topic",
)
SINK_OPEN = gauge("oncelog_kafka_sink_open_transactions", "Open transactions of the sink with this prefix", "prefix")
TIME_LEFT = gauge(
    "oncelog_kafka_batch_time_left_seconds",
    "Time until the brokers abort an open transaction of a batch that is decided and not complete; absent for none",
    "prefix",
    alert="OncelogKafkaBatchRunsOutOfTime",
)

_PARTITION: Final = ("topic", "partition")
STABLE_END = gauge(
    "oncelog_kafka_partition_last_stable_offset",
    "Where read_committed readers of the partition stop (topics and groups that were named)",
    *_PARTITION,
)
LOG_END = gauge(
    "oncelog_kafka_partition_log_end_offset",
    "The offset of the next record (topics and groups that were named)",
    *_PARTITION,
)
GROUP_LAG = gauge(
    "oncelog_kafka_group_lag_offsets",
    "Offsets between the committed one and the last stable offset (groups that were named)",
    "group",
    *_PARTITION,
)
GROUP_LAG_TO_END = gauge(
    "oncelog_kafka_group_lag_to_end_offsets",
    "The same up to the log end, including undecided data",
    "group",
    *_PARTITION,
)

CLUSTER: Final = (TRANSACTIONS, HANGING, OLDEST_OPEN, UNDECIDED_AGE)
OFFSETS: Final = (STABLE_END, LOG_END, GROUP_LAG, GROUP_LAG_TO_END)
SINKS: Final = (FOREIGN, SINK_OPEN, TIME_LEFT)
KAFKA: Final = (*CLUSTER, *PARTITIONS, *SINKS, *OFFSETS)


ALERTS: Final = (
    Alert(
        "OncelogKafkaReadersStandStill",
        f"oncelog_kafka_topic_undecided_age_seconds > {HELD_SECONDS}",
        "1m",
        "page",
        "Readers of {{ $labels.topic }} are stuck at an open transaction: run oncelog kafka txn list.",
        "kafka-readers-stand-still",
    ),
    Alert(
        "OncelogKafkaTransactionHangs",
        "oncelog_kafka_transactions_hanging > 0",
        "5m",
        "page",
        "A transaction exceeded its timeout and its coordinator did not abort it: run oncelog kafka txn find-hanging.",
        "kafka-readers-stand-still",
    ),
    Alert(
        "OncelogKafkaMarkerLeftOut",
        "oncelog_kafka_transactions_left_open > 0",
        "5m",
        "page",
        "Readers are stuck at a transaction that nobody will end: run oncelog kafka txn find-hanging.",
        "kafka-marker-left-out",
    ),
    Alert(
        "OncelogKafkaBatchRunsOutOfTime",
        "oncelog_kafka_batch_time_left_seconds < 3600",
        "1m",
        "page",
        "The brokers will abort parts of a decided batch of {{ $labels.prefix }} within an hour: start its query now.",
        "kafka-batch-runs-out-of-time",
    ),
)


def render_kafka_dashboard() -> str:
    """A dashboard of a cluster's transactions and of its sinks; the log's has those of queries."""
    sections = (("Exporter", catalogue.EXPORTER), ("Kafka", KAFKA), ("Ledgers", catalogue.LEDGER))
    return render_dashboard("oncelog Kafka", sections, (*COMMON_ALERTS, *ALERTS))


@dataclass(frozen=True, slots=True)
class Watched:
    """Whose offsets are served.

    Attributes:
        asked: the way to them.
        topics, groups: by name; of a group also the topics that it has committed offsets of.
    """

    asked: KafkaOverview
    topics: Collection[str]
    groups: Collection[str]


class KafkaSource:
    """A cluster, with the ledgers of its sinks; see `oncelog.metrics.sources.Source`.

    Args:
        brokers: of the cluster.
        store: where the ledgers are; None if there are none yet.
        watched: None for no offsets.
        left_open: None if the partitions are not asked.
    """

    metrics: Final[Sequence[Metric]] = (*KAFKA, *catalogue.LEDGER)

    def __init__(
        self,
        brokers: Brokers,
        store: ZnodeStore | None,
        watched: Watched | None = None,
        left_open: LeftOpen | None = None,
    ) -> None:
        self._brokers = brokers
        self._store = store
        self._watched = watched
        self._left_open = left_open

    def read(self) -> Reading:
        """Everything at about one moment.

        Raises:
            OncelogError: the brokers or the ledger are unreachable, or refuse access.
        """
        reading = Reading(self.metrics)
        self.read_into(reading)
        return reading

    def read_into(self, reading: Reading) -> None:
        """The same, into a reading that may have more."""
        listed = self._brokers.list_ids()
        described = self._brokers.describe(name for name, state in listed if state == ONGOING)
        now_ms = self._brokers.clock.now_ms()
        still_open = {name: one for name, one in described.items() if one.state == ONGOING and one.started_ms > 0}
        read_transactions(reading, listed, still_open.values(), now_ms)
        if self._store is not None:
            with self._store.snapshot() as reader:
                read_ledgers(reader, reading, now_ms)
            reading.put(FOREIGN, foreign_records(self._store))
            read_sinks(reading, self._store, listed, still_open, now_ms)
        if self._watched is not None:
            read_offsets(reading, self._watched)
        if self._left_open is not None:
            self._left_open.read(reading)

    def close(self) -> None:
        """Close the connections."""
        self._brokers.close()
        if self._store is not None:
            self._store.close()
        if self._watched is not None:
            self._watched.asked.close()
        if self._left_open is not None:
            self._left_open.close()


def read_transactions(
    reading: Reading, listed: Iterable[Listed], still_open: Iterable[Transaction], now_ms: int
) -> None:
    """Count all ids by state, and look at those that are open."""
    states = Counter(state for _, state in listed)
    for state in {*STATES, *states}:
        reading.put(TRANSACTIONS, states[state], state)
    ages = [(one, max(now_ms - one.started_ms, 0)) for one in still_open]
    reading.holders = [_holder(one, age_ms) for one, age_ms in ages]
    reading.put(HANGING, sum(one.state == "overdue" for one in reading.holders))
    reading.put(OLDEST_OPEN, max((age_ms for _, age_ms in ages), default=0) / 1000)
    oldest_ms: dict[str, int] = {}
    for one, age_ms in ages:
        for topic in {name.rpartition("-")[0] for name in one.partitions}:
            oldest_ms[topic] = max(oldest_ms.get(topic, 0), age_ms)
    for topic, age_ms in oldest_ms.items():
        reading.put(UNDECIDED_AGE, age_ms / 1000, topic)


def _holder(one: Transaction, age_ms: int) -> Holder:
    state = "overdue" if age_ms > one.timeout_ms + HANGING_BEYOND_MS else "open"
    seconds = (age_ms / 1000, one.timeout_ms / 1000)
    of_sink = ParticipantId.parse(one.transactional_id)
    abort = ("transactional-id", one.transactional_id) if of_sink is None else ("prefix", of_sink.prefix)
    return Holder("transaction", one.transactional_id, None, state, *seconds, one.partitions, (), abort)


def read_sinks(
    reading: Reading,
    store: ZnodeStore,
    listed: Iterable[Listed],
    still_open: Mapping[str, Transaction],
    now_ms: int,
) -> None:
    """What is open of each sink, and how long what it has decided can still be committed."""
    ongoing = [one for one in listed if one[1] == ONGOING]
    for prefix in KAFKA_LEDGERS.prefixes(store):
        reading.put(SINK_OPEN, len(of_prefix(prefix, ongoing)), prefix)
        rounds = KAFKA_LEDGERS.read_rounds(store, prefix).values()
        named = {p.transactional_id for one in rounds if one.is_unfinished for p in one.participants}
        ends_ms = [still_open[name].started_ms + still_open[name].timeout_ms for name in named & still_open.keys()]
        if ends_ms:
            reading.put(TIME_LEFT, (min(ends_ms) - now_ms) / 1000, prefix)


def read_offsets(reading: Reading, watched: Watched) -> None:
    """Where the partitions of topics end, and how far groups are behind; nothing of those whose leader does not say.

    All partitions of a leader are asked about together: one request for each topic would take a scrape's time.
    """
    committed = watched.asked.committed(watched.groups)
    theirs = {topic for offsets in committed.values() for topic, _ in offsets}
    found = watched.asked.ends(watched.asked.leaders_of({*watched.topics, *theirs}))
    for partition, ends in found.items():
        reading.put(STABLE_END, ends.stable, *partition)
        reading.put(LOG_END, ends.high_watermark, *partition)
    for group, offsets in committed.items():
        for partition, offset in offsets.items():
            if partition in found:
                reading.put(GROUP_LAG, max(found[partition].stable - offset, 0), group, *partition)
                reading.put(GROUP_LAG_TO_END, max(found[partition].high_watermark - offset, 0), group, *partition)
