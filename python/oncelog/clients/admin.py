"""The admin client: topics, offsets, transactions, groups, ledgers and upkeep of one log, for tools and operators.

It contains no logic: it only calls coordinator/, log/ and other modules of clients/. Nothing runs in the background of
a log, so somebody must call `upkeep` regularly (``oncelog gc`` does).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from oncelog import limits
from oncelog.arguments import check_choice, check_name, check_number
from oncelog.clients import aborts, descriptions, dump, maintenance, metadata_report, offset_lookup
from oncelog.clients.aborts import AbortedTransaction
from oncelog.clients.descriptions import GroupProgress, TopicDescription, TopicListing
from oncelog.clients.dump import Dumped
from oncelog.clients.maintenance import UpkeepReport
from oncelog.clients.metadata_report import DumpedZnode, MetadataSizes
from oncelog.clients.offset_lookup import End, OffsetSpec
from oncelog.clients.services import LogServices
from oncelog.coordinator import group_removal, groups, inspection, sweeper
from oncelog.coordinator.inspection import (
    LedgerDescription,
    OwnerDescription,
    TransactionDescription,
    TransactionListing,
)
from oncelog.habits import Guided
from oncelog.log import collection, retention, topics, verification
from oncelog.log.collection import Collected
from oncelog.log.retention import Removed
from oncelog.log.topics import Keep, Retention
from oncelog.log.verification import Progress, Verified
from oncelog.protocol.partition import TopicState
from oncelog.protocol.txn_state import TxnState
from oncelog.signatures import checked
from oncelog.types import IsolationLevel, OffsetAndMetadata, TopicPartition
from oncelog.znodes.clock import store_now_ms


class Admin(Guided):
    """Administers one log. Every log has one, as ``log.admin``.

    Example:
        for transaction in log.admin.find_hanging():
            log.admin.abort_transaction(transaction.transactional_id)
    """

    @checked
    def __init__(self, services: LogServices) -> None:
        self._services = services
        self._store = services.store

    def __repr__(self) -> str:
        return f"Admin(cluster_id={self._services.cluster_id!r})"

    # Topics -----------------------------------------------------------------------------------------------------------

    @checked
    def create_topic(
        self, name: str, *, partitions: int = 1, retention_ms: int | None = None, retention_bytes: int | None = None
    ) -> TopicState:
        """Create a topic.

        Args:
            name: letters, digits, dots, underscores and dashes.
            partitions: their number; it cannot be changed later.
            retention_ms: records older than this may be removed; None keeps them.
            retention_bytes: when a partition is larger than this, its oldest records may be removed; None keeps them.

        Raises:
            TopicExistsError: the topic exists.
            UsageError: the name is not allowed, or a number is out of bounds.
        """
        state = topics.new_state(partitions, retention_ms=retention_ms, retention_bytes=retention_bytes)
        return topics.create(self._store, name, state)

    @checked
    def delete_topic(self, name: str) -> None:
        """Delete a topic and all its records. The next collections remove its files.

        Raises:
            UnknownTopicError: the topic does not exist.
        """
        topics.delete(self._store, name)

    @checked
    def configure_topic(
        self, name: str, *, retention_ms: Retention = Keep.KEEP, retention_bytes: Retention = Keep.KEEP
    ) -> TopicState:
        """Change a topic's retention.

        Args:
            retention_ms, retention_bytes: as in `create_topic`; unchanged if left out.

        Raises:
            UnknownTopicError: the topic does not exist.
        """
        return topics.configure(self._store, name, retention_ms=retention_ms, retention_bytes=retention_bytes)

    def list_topics(self) -> list[TopicListing]:
        """All topics, by name."""
        return descriptions.list_topics(self._store)

    @checked
    def describe_topic(self, name: str) -> TopicDescription:
        """A topic, with the offsets, the size and the unsettled transactions of each partition.

        Raises:
            UnknownTopicError: the topic does not exist.
        """
        return descriptions.describe_topic(self._store, name)

    # Offsets ----------------------------------------------------------------------------------------------------------

    @checked
    def list_offsets(
        self,
        wanted: Mapping[TopicPartition, OffsetSpec],
        *,
        isolation_level: IsolationLevel | str = IsolationLevel.READ_COMMITTED,
    ) -> dict[TopicPartition, int | None]:
        """The offsets at the ends of partitions, or at timestamps.

        Args:
            wanted: per partition, ``earliest``, ``latest`` or a timestamp in milliseconds.
            isolation_level: with read_committed, ``latest`` is the partition's last stable offset, planned alone.

        Returns:
            the offsets; for a timestamp, that of the first record with it or a later one, or None if there is none.

        Raises:
            UnknownTopicError, UnknownPartitionError: the topic or partition does not exist.
        """
        isolation = check_choice("isolation_level", IsolationLevel, isolation_level)
        return {tp: offset_lookup.find(self._services, tp, spec, isolation) for tp, spec in wanted.items()}

    @checked
    def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Remove the oldest records.

        Args:
            before: per partition, records below this offset are removed, in whole record batches. Unsettled data and
                everything after it is kept.

        Returns:
            the new log start of each partition.

        Raises:
            OffsetOutOfRangeError: an offset is not within the log; nothing was removed.
        """
        wanted = offset_lookup.within_log(self._store, before)
        maintenance.settle_soon(self._services, wanted)
        files = self._services.new_index_files()
        for partition, offset in wanted.items():
            retention.delete_records(self._store, files, partition, offset)
        return {partition.topic_partition: offset_lookup.earliest(self._store, partition) for partition in wanted}

    # Transactions -----------------------------------------------------------------------------------------------------

    @checked
    def list_transactions(
        self,
        *,
        states: Iterable[TxnState | str] = (),
        prefix: str = "",
        producer_ids: Iterable[int] = (),
    ) -> list[TransactionListing]:
        """The transactional ids that match all given filters, by name, without expired ones (KIP-664).

        Args:
            states: of the transactions. If a micro-batch's round owns a transaction, the round's decision counts.
            prefix: of the transactional id.
            producer_ids: the current producer ids.
        """
        wanted = {check_choice("state", TxnState, state) for state in states}
        found = inspection.list_transactions(
            self._store, states=wanted, prefix=prefix, producer_ids=frozenset(producer_ids)
        )
        return list(found)

    @checked
    def describe_transaction(self, transactional_id: str) -> TransactionDescription:
        """Everything about one transactional id.

        Raises:
            InvalidProducerIdMappingError: the id does not exist, or it expired.
        """
        check_name("transactional id", transactional_id)
        return inspection.describe_transaction(self._store, transactional_id, store_now_ms(self._store))

    @checked
    def abort_transaction(self, transactional_id: str) -> AbortedTransaction:
        """Abort the open transaction of an id, prepared or not, and fence its producer.

        If an undecided micro-batch owns the transaction, its round is aborted with all its participants, and the sink's
        driver runs the batch again. Safe to repeat.

        Raises:
            InvalidProducerIdMappingError: the id does not exist.
            InvalidTxnStateError: no transaction is open: none was begun, or the last one was committed.
        """
        return aborts.abort_transaction(self._services, check_name("transactional id", transactional_id))

    @checked
    def find_hanging(self, *, max_age_ms: int | None = None) -> list[OwnerDescription]:
        """Open transactions and undecided rounds that are older than their time-out or `max_age_ms`, oldest first.

        A prepared transaction never times out, so only `max_age_ms` finds it. Ages are measured by the store's clock.
        """
        if max_age_ms is not None:
            check_number("max_age_ms", max_age_ms)
        now_ms = store_now_ms(self._store)
        return inspection.find_hanging(self._store, now_ms, max_age_ms=max_age_ms)

    # Ledgers ----------------------------------------------------------------------------------------------------------

    def list_prefixes(self) -> list[str]:
        """The transactional-id prefixes under which sinks have written."""
        return inspection.list_prefixes(self._store)

    @checked
    def describe_ledger(self, prefix: str) -> LedgerDescription:
        """The ledger of a sink: its query, its last batch, its rounds.

        Raises:
            UnknownPrefixError: no sink has written under this prefix.
        """
        return inspection.describe_ledger(self._store, prefix, store_now_ms(self._store))

    @checked
    def abort_round(self, prefix: str) -> int | None:
        """Abort the undecided round of a prefix. If its driver is alive, it runs the batch again.

        Returns:
            the number of the round, or None if no round is open.

        Raises:
            UnknownPrefixError: no sink has written under this prefix.
        """
        return aborts.abort_round(self._services, prefix)

    # Groups -----------------------------------------------------------------------------------------------------------

    def list_groups(self) -> list[str]:
        """Ids of the groups that have committed offsets."""
        return groups.list_groups(self._store)

    @checked
    def describe_group(self, group_id: str) -> GroupProgress:
        """A group's committed offsets and lag. Offsets of undecided transactions do not count.

        Raises:
            UnknownGroupError: the group does not exist.
        """
        return descriptions.describe_group(self._services, group_id)

    @checked
    def delete_group(self, group_id: str) -> None:
        """Delete a group: all its offsets, and the mark of the sink that owns it.

        Raises:
            UnknownGroupError: the group does not exist.
            UnstableOffsetCommitError: an undecided transaction holds offsets of the group; wait, or abort it.
        """
        group_removal.delete(self._store, check_name("group id", group_id))

    @checked
    def alter_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Set the committed offsets of a group, which need not exist. Stop its consumers first.

        Args:
            offsets: the next offset to read, by partition.

        Raises:
            OffsetOutOfRangeError: an offset is not within the log.
            GroupOwnedError: a sink owns the group's offsets; delete the group first.
        """
        check_name("group id", group_id)
        values = offset_lookup.within_log(self._store, offsets)
        groups.commit(self._store, group_id, {partition: OffsetAndMetadata(at) for partition, at in values.items()})

    @checked
    def reset_group(self, group_id: str, to: End, *, names: Iterable[str] = ()) -> dict[TopicPartition, int]:
        """Set a group's committed offsets to the start or the end of the log. Stop its consumers first.

        Args:
            group_id: must exist unless topics are named.
            to: ``earliest`` is the log start, ``latest`` each partition's last stable offset, planned alone.
            names: topics whose partitions are all reset; by default, the partitions that the group has offsets for.

        Returns:
            the new offsets.

        Raises:
            UnknownGroupError: the group does not exist, and no topic is named.
            GroupOwnedError: a sink owns the group's offsets; delete the group first.
        """
        wanted = [p.topic_partition for name in names for p in topics.partitions_of(self._store, name)]
        if not wanted:
            held = self.describe_group(group_id).partitions
            wanted = [TopicPartition(p.topic, p.partition) for p in held if p.lso is not None]
        found = self.list_offsets(dict.fromkeys(wanted, to))
        offsets = {tp: offset for tp, offset in found.items() if offset is not None}
        self.alter_offsets(group_id, offsets)
        return offsets

    # Reading ----------------------------------------------------------------------------------------------------------

    @checked
    def dump(
        self,
        topic: str,
        *,
        isolation_level: IsolationLevel | str = IsolationLevel.READ_COMMITTED,
        partition: int | None = None,
        start: int | None = None,
    ) -> Iterator[Dumped]:
        """Everything in a topic, partition by partition: records with their outcome, aborted batches, control markers.

        Args:
            isolation_level: read_committed ends at each partition's last stable offset, and shows an aborted batch as
                one entry. read_uncommitted ends at the log end, and shows the records of aborted and undecided batches.
            partition: only this one.
            start: the first offset; only for a single partition.

        Raises:
            UnknownTopicError, UnknownPartitionError: the topic or partition does not exist.
            OffsetOutOfRangeError: `start` is not within the log.
            DataLossError, CorruptDataError: a file is missing or damaged; everything before it was returned.
        """
        isolation = check_choice("isolation_level", IsolationLevel, isolation_level)
        return dump.dump(self._services, topic, isolation, number=partition, start=start)

    @checked
    def verify(self, *, on_progress: Progress = lambda done, total: None) -> Verified:
        """Check that everything that the metadata lists is present and undamaged. Changes nothing.

        Args:
            on_progress: called with the bytes of data that are done and in total.

        Returns:
            counts, and every problem found.
        """
        return verification.verify(self._store, self._services.files, on_progress=on_progress)

    # Metadata ---------------------------------------------------------------------------------------------------------

    @checked
    def measure_metadata(self, *, largest: int = metadata_report.LARGEST) -> MetadataSizes:
        """The size of the metadata: znodes and bytes of each topic and of the rest.

        Args:
            largest: how many of the largest znodes to list.
        """
        return metadata_report.measure(self._store, largest=check_number("largest", largest))

    @checked
    def dump_metadata(self, path: str = "/") -> Iterator[DumpedZnode]:
        """The znode at `path` and all below it, each before its children. They need not fit into memory.

        Raises:
            UsageError: the znode does not exist.
        """
        return metadata_report.dump(self._store, path)

    # Upkeep -----------------------------------------------------------------------------------------------------------

    @checked
    def upkeep(self, *, dry_run: bool = False, on_file: Callable[[str], None] = lambda name: None) -> UpkeepReport:
        """Do all regular upkeep: time-outs, settling, retention, expiry, collection of files.

        May run at any time, in several processes at once. A file is removed at least `limits.GENERATION_MIN_AGE_MS`
        after an earlier collection found it unreferenced and older than the previous generation. A generation lasts
        at least as long, and until all writers that began before it are done.

        Args:
            dry_run: return which records and files would be removed, and change nothing.
            on_file: called with the name of each file that is checked.
        """
        do = maintenance.preview if dry_run else maintenance.run
        return do(self._services, on_file=on_file)

    def time_out(self) -> list[sweeper.Overdue]:
        """Abort all transactions and rounds that are beyond their time-out; returns them."""
        return maintenance.time_out(self._services)

    def settle(self) -> None:
        """Write the control markers of decided transactions and rounds, and remove owners that nothing lists."""
        maintenance.settle(self._services)

    @checked
    def enforce_retention(self, *, dry_run: bool = False) -> list[Removed]:
        """Apply the retention of all topics. Never removes data of an unsettled transaction.

        The current time is the earlier one of the store's time and this machine's clock. The store's time never goes
        back, so it stays ahead after any machine's clock was once ahead, and alone would make records look too old.

        Args:
            dry_run: return what would be removed, and change nothing. A real run may remove more, because it settles
                first.

        Raises:
            DataLossError, CorruptDataError: the index of a partition is damaged; the other partitions are done.
        """
        return maintenance.enforce_retention(self._services, dry_run=dry_run)

    def expire_transactional_ids(self) -> list[str]:
        """Expire transactional ids that have been idle for `limits.TRANSACTIONAL_ID_EXPIRATION_MS`; returns them."""
        return sweeper.expire_transactional_ids(self._store)

    @checked
    def expire_offsets(self, *, retention_ms: int = limits.OFFSETS_RETENTION_MS) -> list[str]:
        """Remove group offsets that have not been committed for `retention_ms`, or whose topic was deleted.

        A group with offsets in an undecided transaction keeps all its offsets. A sink's group only loses those of
        deleted topics.

        Returns:
            ids of the groups that lost offsets or were removed.
        """
        check_number("retention_ms", retention_ms)
        return group_removal.expire(self._store, store_now_ms(self._store), retention_ms=retention_ms)

    def expire_producers(self) -> int:
        """Forget producers that have not written to a partition for `limits.PRODUCER_ID_EXPIRATION_MS`.

        Returns:
            how many producers were forgotten, over all partitions.
        """
        return maintenance.forget_idle_producers(self._store)

    @checked
    def collect(self, *, dry_run: bool = False, on_file: Callable[[str], None] = lambda name: None) -> Collected:
        """Remove unreferenced files: those of crashed writers, and those that retention and deletion left.

        Args:
            dry_run: return what would be removed, and change nothing.
            on_file: called with the name of each file that is checked.
        """
        return maintenance.collect(self._services, dry_run=dry_run, on_file=on_file)

    def count_files(self) -> int:
        """The number of files that `collect` will check."""
        return collection.count_files(self._services.files)
