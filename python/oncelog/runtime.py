"""The composition root: opens a log from a path and options, and closes what it opened.

All other modules get their parts from here; none of them builds its own store.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from os import PathLike
from types import TracebackType
from typing import Annotated, Self
from weakref import WeakSet

from oncelog import limits
from oncelog.arguments import check_choice
from oncelog.clients.admin import Admin
from oncelog.clients.background import Threads
from oncelog.clients.consumer import Consumer
from oncelog.clients.producer import Producer
from oncelog.clients.services import LogServices
from oncelog.coordinator.producer_ids import ProducerIds
from oncelog.coordinator.transactions import TransactionCoordinator
from oncelog.habits import Guided
from oncelog.log import folder_mark
from oncelog.log.files import absolute, file_store
from oncelog.metadata import ensure_format, open_store, open_target, place_of
from oncelog.ports import Background, Clock, FileStore, ZnodeStore, ZnodeView
from oncelog.protocol.partition import TopicState
from oncelog.signatures import checked
from oncelog.types import IsolationLevel
from oncelog.znodes import copying, paths
from oncelog.znodes.clock import SystemClock
from oncelog.znodes.copying import Copied, Progress
from oncelog.znodes.log_payloads import LogFormat, encode_format
from oncelog.znodes.schemes import shown
from oncelog.znodes.transact import resolving


class Log(Guided):
    """An open log, returned by `open`. Close it, or use it as a context manager.

    A log may be shared between threads; its producers and consumers may not. A forked child must open the log again.

    Attributes:
        path: folder of the data files.
        znodes: URL of the metadata store; None for the SQLite file in `path`.
        admin: the admin client.
        services: the internal parts, for the Spark sources and sinks.
    """

    @checked
    def __init__(
        self, path: str, znodes: str | None, services: Annotated[LogServices, "oncelog.open(...) makes a log"]
    ) -> None:
        self.path = path
        self.znodes = znodes
        self.services = services
        self.admin = Admin(services)
        self._producers: WeakSet[Producer] = WeakSet()

    def __repr__(self) -> str:
        return f"Log({self.path!r}, znodes={None if self.znodes is None else shown(self.znodes)!r})"

    @property
    def cluster_id(self) -> str:
        """The id that the log got when it was created, as in Kafka's cluster id."""
        return self.services.cluster_id

    @checked
    def create_topic(
        self, name: str, *, partitions: int = 1, retention_ms: int | None = None, retention_bytes: int | None = None
    ) -> TopicState:
        """Create a topic; see `Admin.create_topic`."""
        return self.admin.create_topic(
            name, partitions=partitions, retention_ms=retention_ms, retention_bytes=retention_bytes
        )

    @checked
    def producer(
        self,
        *,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = limits.DEFAULT_TRANSACTION_TIMEOUT_MS,
        codec: str = limits.DEFAULT_CODEC,
        delivery_timeout_ms: int = 120_000,
        linger_ms: int = limits.DEFAULT_LINGER_MS,
    ) -> Producer:
        """Make an idempotent producer; with a `transactional_id` it is transactional.

        Args:
            transactional_id: the same one at every restart of a task. A new producer with it fences the older ones.
            transaction_timeout_ms: any process may abort a transaction that has been open for this long.
            codec: compression of record batches: zstd, lz4 or null.
            delivery_timeout_ms: how long retriable errors are retried.
            linger_ms: how long a record waits for others before it is appended in the background. In a transaction
                records wait for the commit, a `flush` or a full buffer.
        """
        producer = Producer(
            self.services,
            transactional_id=transactional_id,
            transaction_timeout_ms=transaction_timeout_ms,
            codec_name=codec,
            delivery_timeout_ms=delivery_timeout_ms,
            linger_ms=linger_ms,
        )
        self._producers.add(producer)
        return producer

    @checked
    def consumer(
        self,
        *,
        group_id: str | None = None,
        isolation_level: IsolationLevel | str = IsolationLevel.READ_COMMITTED,
        auto_offset_reset: str = "latest",
    ) -> Consumer:
        """Make a consumer.

        **There is no group membership: if two consumers with the same `group_id` both subscribe, each gets every
        record.**

        Args:
            group_id: the group whose committed offsets it starts from and commits to.
            isolation_level: read_committed or read_uncommitted.
            auto_offset_reset: where to start without a committed offset: earliest, latest or none (an error).
        """
        return Consumer(
            self.services,
            group_id=group_id,
            isolation_level=check_choice("isolation_level", IsolationLevel, isolation_level),
            auto_offset_reset=auto_offset_reset,
        )

    def close(self) -> None:
        """Close the log's producers, then its store. Its clients cannot be used afterwards.

        If a producer cannot be closed, the rest is closed, and then its error is raised. Records that are lost with an
        open transaction are logged as a warning.
        """
        with ExitStack() as closing:
            closing.callback(self.services.store.close)
            for producer in list(self._producers):
                closing.callback(producer.close_forgotten)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@checked
def open(path: str | PathLike[str], znodes: str | None = None, *, create: bool = True) -> Log:
    """Open a log, or create it if there is none.

    Args:
        path: folder of the data files (``~`` is the home folder), or ``s3://bucket/folder`` together with `znodes`.
        znodes: where the metadata is. None or ``sqlite``: a SQLite file in `path`. Another folder, or
            ``sqlite:/a/file``: a SQLite file there. ``zk://host:port,host:port/chroot``: a ZooKeeper ensemble, and
            ``postgresql://user@host:port/database``: a PostgreSQL, both for several hosts. ``s3``: next to the files of
            a log in a bucket, or ``s3://bucket/folder``, for one or two writers. ``memory``: a store that ends with
            the process, for tests. Or the URL of a store from another package.
        create: whether a missing log may be created.

    Raises:
        UsageError: an unknown scheme, no log at `path` with ``create=False``, or `path` is not the folder of the log
            that `znodes` names.
        StoreHostError: the SQLite store belongs to another host or is on a network file system: use ZooKeeper.
        UnsupportedFormatError: a newer oncelog wrote the log.
    """
    root = absolute(path)  # tasks open it too, from another working folder
    files = file_store(root)
    place = place_of(root, znodes)
    store = open_store(root, place, create=create, files=files)
    try:
        found = ensure_format(store, root, place, create=create)
        _ensure_folder(store, files, found, root)
        return _log(
            root, None if znodes is None else place.url, store, files, SystemClock(), Threads(), found.cluster_id
        )
    except BaseException:
        store.close()
        raise


@checked
def open_with(
    path: str,
    znodes: str | None,
    store: ZnodeStore,
    files: FileStore,
    clock: Clock,
    *,
    create: bool = True,
    background: Background | None = None,
) -> Log:
    """Open a log over given stores: for tests, simulators and stores of your own.

    Args:
        path, znodes: as in `open`; tasks in other processes open the log with them.
        store: the log closes it.
        background: runs background work; None for threads.
    """
    found = ensure_format(store, path, None, create=create)
    return _log(path, znodes, store, files, clock, background or Threads(), found.cluster_id)


def _log(
    path: str,
    znodes: str | None,
    store: ZnodeStore,
    files: FileStore,
    clock: Clock,
    background: Background,
    cluster_id: str,
) -> Log:
    producer_ids = ProducerIds(store)
    coordinator = TransactionCoordinator(store, producer_ids)
    return Log(path, znodes, LogServices(cluster_id, store, files, clock, producer_ids, coordinator, background))


@checked
def copy_metadata(log: Log, to: str, *, on_progress: Progress = lambda done, total: None) -> Copied:
    """Copy all metadata of an idle log into another store. The data files stay where they are.

    If a copy fails or is killed, the target store cannot be opened, and the next copy starts from scratch.

    Args:
        log: the source; it is only read. Open the log only with ``znodes=to`` after the copy: two stores over the same
            data files would delete each other's files.
        to: the target store, as `znodes` of `open`; it must be empty.
        on_progress: called with the number of znodes done and in total.

    Returns:
        what was copied and compared.

    Raises:
        UsageError: the target store is not empty, or cannot hold metadata.
        LogInUseError: the log was written to during the copy. Stop every process that uses it, and copy again.
        UnsupportedFormatError: another version of oncelog wrote one of the stores.
        CorruptDataError: a znode cannot be read, or the target store does not return what was written.
    """
    target = open_target(place_of(log.path, to), log.path)
    try:
        return copying.copy(log.services.store, target, on_progress=on_progress)
    finally:
        target.close()


def _ensure_folder(store: ZnodeStore, files: FileStore, found: LogFormat, path: str) -> None:
    """Check that `path` is the folder the log was created with; mark the folder of a new log."""
    folder_mark.ensure(files, found.cluster_id, path, is_marked=found.folder_mark is not None)
    if found.folder_mark is not None:
        return
    marked = encode_format(replace(found, folder_mark=folder_mark.NAME))

    def note(view: ZnodeView) -> None:
        znode = view.get(paths.FORMAT)
        if znode is not None and znode.data != marked:
            view.set(paths.FORMAT, marked)

    resolving(lambda: store.transact(note))
