"""What ``oncelog kafka ui`` reads: what the exporter does, and where partitions end, who holds them, and groups' lag.

Asked by itself, a cluster says it of all that this user may see. That is bounded, and the page says what was left out.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final, Protocol

from oncelog.metrics import catalogue as c
from oncelog.metrics.catalogue import Metric
from oncelog.metrics.reading import Holder, Reading
from oncelog_kafka.brokers.overview import Ends
from oncelog_kafka.operations.metrics import CLUSTER, SINKS, KafkaSource
from oncelog_kafka.operations.repair import Search
from oncelog_kafka.options.sink_options import DEFAULT_LEDGER_TOPIC
from oncelog_kafka.protocol.hanging import Hang
from oncelog_kafka.protocol.participants import is_token_group

PARTITIONS_MOST: Final = 1_000
GROUPS_MOST: Final = 200

SEARCH_SECONDS: Final = 5.0
"""How long readers of a partition must have been stuck before its leader is asked for the cause."""

TopicPartition = tuple[str, int]


class Overview(Protocol):
    """A whole cluster; see `brokers.overview.KafkaOverview`."""

    def leaders(self) -> dict[TopicPartition, int]: ...

    def ends(self, leaders: Mapping[TopicPartition, int]) -> dict[TopicPartition, Ends]: ...

    def groups(self) -> list[str]: ...

    def committed(self, groups: Iterable[str]) -> dict[str, dict[TopicPartition, int]]: ...


class HangSearch:
    """Looks for hanging transactions where readers are stuck.

    Args:
        find: asks the leaders of some partitions, and the coordinators.
        monotonic: in seconds.
    """

    def __init__(
        self,
        find: Callable[[Collection[TopicPartition]], Search],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._find = find
        self._monotonic = monotonic
        self._asked: float | None = None
        self._before: Mapping[TopicPartition, int] = {}
        self._found = Search((), ())

    def look(self, held: Mapping[TopicPartition, int]) -> Search:
        """What hangs in these partitions; they are asked now and then, and only where nothing has moved meanwhile.

        Args:
            held: the last stable offset of each partition that has rows beyond it.
        """
        now = self._monotonic()
        if self._asked is None or now - self._asked >= SEARCH_SECONDS:
            standing = {one for one, stable in held.items() if self._before.get(one) == stable}
            self._asked, self._before = now, dict(held)
            self._found = self._find(standing) if standing else Search((), ())
        hangs = [one for one in self._found.hangs if held.get((one.topic, one.partition), math.inf) <= one.start_offset]
        return Search(hangs, [one for one in self._found.not_asked if (one.topic, one.partition) in held])


@dataclass(frozen=True, slots=True)
class Offsets:
    """How a cluster is asked for its offsets.

    Attributes:
        topics, groups: only those of these names; all if there are none.
    """

    overview: Overview
    search: HangSearch
    topics: Collection[str] = ()
    groups: Collection[str] = ()


class ClusterSource:
    """A cluster with its offsets; see `oncelog.metrics.sources.Source`.

    Args:
        source: reads transactions and ledgers.
        offsets: None if these settings are for Java's client only.
        closing: closes what was opened.
    """

    metrics: Final[Sequence[Metric]] = (*CLUSTER, *SINKS, *c.LEDGER, c.LAST_STABLE, c.LOG_END, c.GROUP_LAG)

    def __init__(self, source: KafkaSource, offsets: Offsets | None, closing: ExitStack) -> None:
        self._source = source
        self._offsets = offsets
        self.close = closing.close

    def read(self) -> Reading:
        """Everything at about one moment.

        Raises:
            OncelogError: the brokers or the ledger are unreachable, or refuse access.
        """
        reading = Reading(self.metrics)
        self._source.read_into(reading)
        if self._offsets is None:
            reading.notes["Partitions"] = reading.notes["Groups"] = NEEDS_PYTHON
        else:
            read_offsets(reading, self._offsets)
        return reading


NEEDS_PYTHON: Final = (
    "Not asked: only Java's client can do this login. Give one of kafka-python's, as in "
    "--config admin.sasl_mechanism=..., to see them."
)


def read_offsets(reading: Reading, offsets: Offsets) -> None:
    """Where partitions end and by whom they are held, and how far groups are behind."""
    leaders = offsets.overview.leaders()
    committed = _committed(reading, offsets)
    wanted = _wanted(reading, offsets.topics, leaders)
    theirs = {one for places in committed.values() for one in places}
    ends = offsets.overview.ends({one: leaders[one] for one in wanted | theirs if one in leaders})
    for one in wanted & ends.keys():
        reading.put(c.LAST_STABLE, ends[one].stable, *one)
        reading.put(c.LOG_END, ends[one].high_watermark, *one)
    for group, places in committed.items():
        _put_lag(reading, group, {one: offset for one, offset in places.items() if one in leaders}, ends)
    held = {one: ends[one].stable for one in wanted & ends.keys() if ends[one].stable < ends[one].high_watermark}
    found = offsets.search.look(held)
    reading.holders += [_hanging(one) for one in found.hangs]
    if found.not_asked:
        names = sorted({f"{one.topic}-{one.partition} ({one.answer})" for one in found.not_asked})
        _add_note(reading, "Partitions", f"Who holds these was not said: {', '.join(names[:3])}; {len(names)} in all.")


def _committed(reading: Reading, offsets: Offsets) -> dict[str, dict[TopicPartition, int]]:
    """The offsets of groups. Those in which sinks commit their tokens are shown only if they are named."""
    known = offsets.groups or [one for one in offsets.overview.groups() if not is_token_group(one)]
    chosen = sorted(known)[:GROUPS_MOST]
    if len(chosen) < len(known):
        _add_note(reading, "Groups", f"{len(known) - len(chosen)} more groups are not read: name some with --group.")
    return offsets.overview.committed(chosen)


def _wanted(reading: Reading, topics: Collection[str], known: Iterable[TopicPartition]) -> set[TopicPartition]:
    """What is held first, and of what else there is as much as may be asked each second."""
    held = {name for one in reading.holders for name in one.partitions}
    ranked = [
        (f"{topic}-{number}" not in held, topic, number)
        for topic, number in known
        if f"{topic}-{number}" in held or (topic in topics if topics else not is_internal(topic))
    ]
    chosen = sorted(ranked)[:PARTITIONS_MOST]
    if len(chosen) < len(ranked):
        more = len(ranked) - len(chosen)
        _add_note(reading, "Partitions", f"{more} more partitions are not read: name some topics with --topic.")
    return {(topic, number) for _, topic, number in chosen}


def is_internal(topic: str) -> bool:
    """Whether a topic is Kafka's own, or keeps ledgers under the default name."""
    return topic.startswith("__") or topic == DEFAULT_LEDGER_TOPIC


def _put_lag(
    reading: Reading, group: str, committed: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, Ends]
) -> None:
    """The lag of a group; nothing if one of its partitions has no leader now: a part of the lag is no lag."""
    if committed.keys() <= ends.keys():
        for one, offset in committed.items():
            reading.put(c.GROUP_LAG, max(ends[one].stable - offset, 0), group, *one)


def _add_note(reading: Reading, table: str, note: str) -> None:
    reading.notes[table] = f"{reading.notes[table]} {note}" if table in reading.notes else note


def _hanging(one: Hang) -> Holder:
    return Holder(
        kind="transaction",
        name=one.transactional_id or f"producer {one.producer_id}.{one.epoch}",
        number=None,
        state="hanging",
        age_seconds=max(one.age_ms, 0) / 1000,
        timeout_seconds=0,
        partitions=(one.place,),
        groups=(),
        fate=one.verdict.value,
        why=one.why,
    )
