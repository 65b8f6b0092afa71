"""The admin client: topics, offsets, transactions, groups, ledgers and upkeep of one log, for tools and operators.

Decides nothing: it brings together what coordinator/ and log/ offer, and puts names on it. Nothing runs in the
background of a log, so somebody has to call `upkeep` now and then (``oncelog gc`` does).
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
    """Looks after one log. Made by `oncelog.open`, as ``log.admin``.

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
            partitions: how many; it cannot be changed later.
            retention_ms: records older than this may be removed; None keeps them.
            retention_bytes: oldest records of a partition may be removed beyond this size; None keeps them.

        Raises:
            TopicExistsError: there is one of this name.
            UsageError: the name or a number is out of bounds.
        """
        state = topics.new_state(partitions, retention_ms=retention_ms, retention_bytes=retention_bytes)
        return topics.create(self._store, name, state)

    @checked
    def delete_topic(self, name: str) -> None:
        """Delete a topic and all its records; its files go with the next collections.

        Raises:
            UnknownTopicError: there is none of this name.
        """
        topics.delete(self._store, name)

    @checked
    def configure_topic(
        self, name: str, *, retention_ms: Retention = Keep.KEEP, retention_bytes: Retention = Keep.KEEP
    ) -> TopicState:
        """Change a topic's retention.

        Args:
            name: of the topic.
            retention_ms: as in `create_topic`; left out, it stays as it is.
            retention_bytes: the same.

        Raises:
            UnknownTopicError: there is none of this name.
        """
        return topics.configure(self._store, name, retention_ms=retention_ms, retention_bytes=retention_bytes)

    def list_topics(self) -> list[TopicListing]:
        """All topics, by name."""
        return descriptions.list_topics(self._store)

    @checked
    def describe_topic(self, name: str) -> TopicDescription:
        """A topic with the bounds, the size and the unsettled transactions of each partition.

        Raises:
            UnknownTopicError: there is none of this name.
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
        """Offsets by place.

        Args:
            wanted: per partition, ``earliest``, ``latest`` or a timestamp in milliseconds.
            isolation_level: read_committed ends at the last stable offset of the partition, planned alone.

        Returns:
            the offsets; None where no record below the end is of the timestamp or later.

        Raises:
            UnknownTopicError, UnknownPartitionError: mend the name.
        """
        isolation = check_choice("isolation_level", IsolationLevel, isolation_level)
        return {tp: offset_lookup.find(self._services, tp, spec, isolation) for tp, spec in wanted.items()}

    @checked
    def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Remove the oldest records.

        Args:
            before: per partition, the offset below which records go. A record batch goes as a whole, and what an
                undecided transaction wrote stays with all that follows it.

        Returns:
            the log start of each partition now.

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
        """Transactional ids that pass every filter given, by name; expired ones are hidden (KIP-664).

        Args:
            states: of their transactions; one that a micro-batch's round owns counts as what the round decided.
            prefix: of the transactional id.
            producer_ids: of their present identities.
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
            InvalidProducerIdMappingError: there is no such id, or it expired.
        """
        check_name("transactional id", transactional_id)
        return inspection.describe_transaction(self._store, transactional_id, store_now_ms(self._store))

    @checked
    def abort_transaction(self, transactional_id: str) -> AbortedTransaction:
        """Abort the open transaction of an id, prepared or not, and fence its producer.

        Where an undecided micro-batch owns the transaction, its round is aborted, with all its participants; the
        sink's driver runs the batch again. Repeating it is harmless.

        Raises:
            InvalidProducerIdMappingError: there is no such id.
            InvalidTxnStateError: it has no open transaction: none was begun, or the last one was committed.
        """
        return aborts.abort_transaction(self._services, check_name("transactional id", transactional_id))

    @checked
    def find_hanging(self, *, max_age_ms: int | None = None) -> list[OwnerDescription]:
        """Open transactions and undecided rounds older than their own time-out, or than `max_age_ms`; oldest first.

        A prepared transaction never times out: only `max_age_ms` finds it. Ages are by the store's time.
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
        """What the batch ledger of a sink says: its query, its last batch, its rounds.

        Raises:
            UnknownPrefixError: no sink has written under this prefix.
        """
        return inspection.describe_ledger(self._store, prefix, store_now_ms(self._store))

    @checked
    def abort_round(self, prefix: str) -> int | None:
        """Abort the undecided round of a prefix; its driver, if it lives, runs the batch again.

        Returns:
            the number of the round, or None if none is open.

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
        """Committed offsets and lag of a group; the old offset where a transaction is undecided.

        Raises:
            UnknownGroupError: there is no such group.
        """
        return descriptions.describe_group(self._store, group_id)

    @checked
    def delete_group(self, group_id: str) -> None:
        """Forget all offsets of a group, and which sink owns them.

        Raises:
            UnknownGroupError: there is no such group.
            UnstableOffsetCommitError: a transaction that holds offsets of it is undecided; wait or abort it.
        """
        group_removal.delete(self._store, check_name("group id", group_id))

    @checked
    def alter_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Set the committed offsets of a group, which need not exist. Stop its consumers first.

        Args:
            group_id: of the group.
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
        """Set a group's committed offsets to one end of the log. Stop its consumers first.

        Args:
            group_id: of the group; with `names` it need not exist.
            to: ``earliest`` is the log start, ``latest`` the last stable offset of each partition alone.
            names: of topics, all partitions of which are reset; by default those that the group has offsets of.

        Returns:
            the new offsets.

        Raises:
            UnknownGroupError: there is no such group, and no topic is named.
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
        """What a topic holds, partition after partition: records with their outcome, aborted batches, control markers.

        Args:
            topic: its name.
            isolation_level: read_committed ends at the last stable offset; see clients/dump.py.
            partition: only this one.
            start: the first offset, of the one partition that is shown.

        Raises:
            UnknownTopicError, UnknownPartitionError: mend the name.
            OffsetOutOfRangeError: `start` is not within the log.
            DataLossError, CorruptDataError: a file is gone or damaged; what is before it was shown.
        """
        isolation = check_choice("isolation_level", IsolationLevel, isolation_level)
        return dump.dump(self._services, topic, isolation, number=partition, start=start)

    @checked
    def verify(self, *, on_progress: Progress = lambda done, total: None) -> Verified:
        """Check that everything the metadata promises is there and is what was written. Changes nothing.

        Args:
            on_progress: called with the bytes of data done and in total.

        Returns:
            counts, and every problem found.
        """
        return verification.verify(self._store, self._services.files, on_progress=on_progress)

    # Metadata ---------------------------------------------------------------------------------------------------------

    @checked
    def measure_metadata(self, *, largest: int = metadata_report.LARGEST) -> MetadataSizes:
        """How large the metadata is: znodes and bytes of each topic and of the rest.

        Args:
            largest: how many of the largest znodes to name.
        """
        return metadata_report.measure(self._store, largest=check_number("largest", largest))

    @checked
    def dump_metadata(self, path: str = "/") -> Iterator[DumpedZnode]:
        """The znode at `path` and all below it, each before its children; they need not fit into memory.

        Raises:
            UsageError: there is no such znode.
        """
        return metadata_report.dump(self._store, path)

    # Upkeep -----------------------------------------------------------------------------------------------------------

    @checked
    def upkeep(self, *, dry_run: bool = False, on_file: Callable[[str], None] = lambda name: None) -> UpkeepReport:
        """Everything that time does to a log: time-outs, settling, retention, expiry, collection of files.

        Safe to run at any time, by several processes at once. Files go at the first collection that
        comes `limits.GENERATION_MIN_AGE_MS` after one that found them unreferenced two generations after they were
        written; a generation lasts at least as long, and until the writers from before it are done.

        Args:
            dry_run: say which records and files would go, and change nothing.
            on_file: called for each file as it is looked at.
        """
        do = maintenance.preview if dry_run else maintenance.run
        return do(self._services, on_file=on_file)

    def time_out(self) -> list[sweeper.Overdue]:
        """Abort every transaction and round that is beyond its time-out; returns them."""
        return maintenance.time_out(self._services)

    def settle(self) -> None:
        """Write the control markers of everything decided, and drop what nothing lists any more."""
        maintenance.settle(self._services)

    @checked
    def enforce_retention(self, *, dry_run: bool = False) -> list[Removed]:
        """Apply every topic's retention. Never removes data of an unsettled transaction.

        A record is as old as the store's time and this machine's clock both say: the store's never goes back, so that a
        clock which was once ahead would make all records old for as long.

        Args:
            dry_run: say what would be removed, and change nothing. What is decided and not settled holds back more
                then: a real run settles first.

        Raises:
            DataLossError, CorruptDataError: the index of a partition is damaged; the others are done.
        """
        return maintenance.enforce_retention(self._services, dry_run=dry_run)

    def expire_transactional_ids(self) -> list[str]:
        """Expire transactional ids that were idle for `limits.TRANSACTIONAL_ID_EXPIRATION_MS`; returns them."""
        return sweeper.expire_transactional_ids(self._store)

    @checked
    def expire_offsets(self, *, retention_ms: int = limits.OFFSETS_RETENTION_MS) -> list[str]:
        """Forget group offsets that were not committed for `retention_ms` or whose topic is gone.

        A group with offsets in an undecided transaction keeps them all; one that a sink owns loses those of deleted
        topics only.

        Args:
            retention_ms: since the last commit of an offset.

        Returns:
            ids of the groups that lost offsets or went.
        """
        check_number("retention_ms", retention_ms)
        return group_removal.expire(self._store, store_now_ms(self._store), retention_ms=retention_ms)

    def expire_producers(self) -> int:
        """Forget producers that did not write to a partition for `limits.PRODUCER_ID_EXPIRATION_MS`."""
        return maintenance.forget_idle_producers(self._store)

    @checked
    def collect(self, *, dry_run: bool = False, on_file: Callable[[str], None] = lambda name: None) -> Collected:
        """Remove files that nothing names: orphans of crashed writers, and what retention and deletion let go.

        Args:
            dry_run: say what would be removed, and change nothing.
            on_file: called for each file as it is looked at.
        """
        return maintenance.collect(self._services, dry_run=dry_run, on_file=on_file)

    def count_files(self) -> int:
        """Files of the log, as `collect` will look at them."""
        return collection.count_files(self._services.files)
