"""The upkeep that runs only on request, as by ``oncelog gc``: time-outs, settling, retention, expiry, collection.

Every part may run at any time, in several processes at once. clients/upkeep.py is the upkeep of every client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from oncelog import limits
from oncelog.clients.services import LogServices
from oncelog.coordinator import group_removal, owners, settler, sweeper
from oncelog.coordinator.settler import Settler
from oncelog.coordinator.sweeper import Overdue
from oncelog.errors import CorruptDataError, DataLossError, OutcomeUnknownError, RetriableError, UnknownTopicError
from oncelog.log import collection, partition_reads, retention, topics
from oncelog.log.collection import Collected
from oncelog.log.producer_expiry import expire_producers
from oncelog.log.retention import Removed
from oncelog.ports import ZnodeStore
from oncelog.types import TopicIdPartition
from oncelog.znodes.clock import store_now_ms

OnFile = Callable[[str], None]
"""Called with the name of each file that is checked."""


@dataclass(frozen=True, slots=True)
class UpkeepReport:
    """What `Admin.upkeep` did. After a dry run, only `removed` and `collected` say what it would do.

    Attributes:
        timed_out: transactions and rounds that were aborted because of their time-out.
        removed: what retention removed from partitions.
        expired_transactional_ids: those that were removed.
        expired_groups: groups that were removed or lost offsets.
        expired_producers: number of idle producers that partitions forgot.
        collected: the files that were removed, and those that were not.
    """

    timed_out: tuple[Overdue, ...]
    removed: tuple[Removed, ...]
    expired_transactional_ids: tuple[str, ...]
    expired_groups: tuple[str, ...]
    expired_producers: int
    collected: Collected


def run(services: LogServices, *, on_file: OnFile) -> UpkeepReport:
    """Run all of it, in an order in which each part enables the next ones to do more."""
    timed_out = time_out(services)
    settle(services)
    now_ms = store_now_ms(services.store)
    return UpkeepReport(
        timed_out=tuple(timed_out),
        expired_transactional_ids=tuple(sweeper.expire_transactional_ids(services.store)),
        expired_groups=tuple(group_removal.expire(services.store, now_ms, retention_ms=limits.OFFSETS_RETENTION_MS)),
        expired_producers=forget_idle_producers(services.store),
        removed=tuple(enforce_retention(services)),  # these two come last: they fail on a damaged index
        collected=collect(services, on_file=on_file),
    )


def preview(services: LogServices, *, on_file: OnFile) -> UpkeepReport:
    """Find the records and files that would be removed; change nothing."""
    removed = enforce_retention(services, dry_run=True)
    return UpkeepReport((), tuple(removed), (), (), 0, collect(services, dry_run=True, on_file=on_file))


def time_out(services: LogServices) -> list[Overdue]:
    """Abort overdue transactions and rounds: see `Admin.time_out`."""
    return sweeper.sweep_owners(services.store, services.coordinator, owners.open_owners(services.store))


def settle(services: LogServices) -> None:
    """Settle everything decided, and remove owners that nothing lists any more."""
    settle_soon(services, _all_partitions(services.store))
    settler.forget_unlisted(services.store)


def settle_soon(services: LogServices, partitions: Iterable[TopicIdPartition]) -> None:
    """Settle what is decided. It is already visible, so on a failure the next settler continues."""
    with suppress(RetriableError, OutcomeUnknownError):
        Settler(services.store, services.clock).settle_now(partitions)


def enforce_retention(services: LogServices, *, dry_run: bool = False) -> list[Removed]:
    """Apply every topic's retention: see `Admin.enforce_retention`."""
    store = services.store
    now_ms = min(store_now_ms(store), services.clock.now_ms())
    files = services.new_index_files()
    removed, damage = [], None
    partitions = _all_partitions(store)
    if not dry_run:
        settle_soon(services, partitions)
    for partition in partitions:
        try:
            topic = partition_reads.read_topic(store, partition.topic)
            removed.append(retention.enforce(store, files, partition, topic, now_ms, dry_run=dry_run))
        except UnknownTopicError:
            continue  # deleted meanwhile
        except (DataLossError, CorruptDataError) as error:
            error.fields |= {"topic": partition.topic, "partition": partition.partition}
            damage = damage or error
    if damage is not None:
        raise damage
    return [one for one in removed if one is not None]


def forget_idle_producers(store: ZnodeStore) -> int:
    """Forget idle producers, and return how many: see `Admin.expire_producers`."""
    now_ms = store_now_ms(store)
    return sum(expire_producers(store, partition, now_ms) for partition in _all_partitions(store))


def collect(services: LogServices, *, dry_run: bool = False, on_file: OnFile) -> Collected:
    """Remove files that nothing names: see `Admin.collect`."""
    store = services.store
    if not dry_run:
        topics.remove_tombstones(store, store_now_ms(store))
    return collection.collect(
        store, services.files, now_ms=lambda: store_now_ms(store), dry_run=dry_run, on_file=on_file
    )


def _all_partitions(store: ZnodeStore) -> list[TopicIdPartition]:
    with store.snapshot() as reader:
        return topics.all_partitions(reader)
