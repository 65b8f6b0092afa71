"""Names transactions and rounds in tables."""

from __future__ import annotations

from oncelog.cli.output import duration
from oncelog.coordinator.inspection import OwnerDescription, RoundName
from oncelog.types import ProducerIdAndEpoch, TopicPartition

OWNER_COLUMNS = ("state", "age>", "time-out>", "transaction or round")


def owner_cells(owner: OwnerDescription) -> tuple[str, str | None, str | None, str]:
    """The cells of `OWNER_COLUMNS`."""
    state = "prepared" if owner.is_prepared else owner.outcome.value
    timeout = None if owner.is_prepared else duration(owner.timeout_ms)
    return state, duration(owner.age_ms), timeout, owner_name(owner)


def owner_name(owner: OwnerDescription) -> str:
    """A transaction by its id and identity, a round by its prefix and number."""
    if owner.round is not None:
        return round_text(owner.round)
    return f"{owner.transactional_id} ({producer_text(owner.producer)})"


def round_text(name: RoundName) -> str:
    """A round as text: prefix and number."""
    return f"{name.prefix} round {name.number}"


def producer_text(producer: ProducerIdAndEpoch | None) -> str:
    """A producer's identity as text: ``<producer id>.<epoch>``."""
    return "-" if producer is None else str(producer)


def partitions_text(partitions: tuple[TopicPartition, ...]) -> str:
    """Partitions as text, grouped by topic: ``flights 0 1 3, delayed 0``."""
    numbers: dict[str, list[str]] = {}
    for partition in partitions:
        numbers.setdefault(partition.topic, []).append(str(partition.partition))
    return ", ".join(f"{topic} {' '.join(found)}" for topic, found in numbers.items()) or "-"
