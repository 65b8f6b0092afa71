"""The composition root: turns a URI and options into an open log, and closes what it opened.

Everything below receives its parts from here; nothing below reads the environment or builds its own store.
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
from oncelog.errors import UsageError
from oncelog.habits import Guided
from oncelog.log import folder_mark
from oncelog.log.files import absolute, file_store
from oncelog.metadata import ensure_format, open_store, place_of
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
    """An open log. Made by `open`; close it, or use it as a context manager.

    Safe to use from several threads; its producers and consumers are not. A forked child opens the log anew.

    Attributes:
        path: root of the data files.
        znodes: URL of the store of the metadata; None for the SQLite file below `path`.
        admin: topics, offsets, transactions, groups, upkeep.
        services: the parts, for the layers above.
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
        """Identity of this log."""
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
        """A producer: idempotent, and transactional with a `transactional_id`.

        Args:
            transactional_id: stable over restarts of the same task; a new producer of it fences older ones.
            transaction_timeout_ms: an open transaction may be aborted by anyone after this long.
            codec: compression of record batches: zstd, lz4 or null.
            delivery_timeout_ms: how long retriable errors are retried.
            linger_ms: how long a record waits for others before it leaves by itself. In a transaction records wait for
                the commit, a `flush` or a full buffer.
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
        """A consumer of assigned or subscribed partitions.

        **There is no group membership: two consumers of one `group_id` that both subscribe each get every record.**

        Args:
            group_id: whose committed offsets it starts from and commits to.
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
        """Close the log's producers, then its stores. Clients made from it cannot be used any more.

        An error of `Producer.close` is raised; the rest is closed all the same. What is lost with a transaction is
        logged.
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
    """Open a log, and create it where there is none.

    Args:
        path: folder of the data files (``~`` is the home folder), or ``s3://bucket/folder`` with `znodes` elsewhere.
        znodes: where the metadata is: left out or ``sqlite`` for one SQLite file in `path`, another folder or
            ``sqlite:/a/file`` for one there, ``zk://host:port,host:port/chroot`` for a ZooKeeper ensemble that serves
            several hosts, ``memory`` for a store that dies with the process (tests), or the URL of a store of another
            package.
        create: whether a log may be created; otherwise a missing one is an error.

    Returns:
        the log; close it when done.

    Raises:
        UsageError: an unknown scheme, no log at `path` with ``create=False``, or `path` is not the folder of the log
            that `znodes` names.
        StoreHostError: the SQLite store is on another host or a network file system: use a ZooKeeper.
        UnsupportedFormatError: a newer oncelog wrote the log.
    """
    root = absolute(path)  # tasks open it too, with another working folder
    files = file_store(root)
    place = place_of(root, znodes)
    store = open_store(root, place, create=create, files=files)
    try:
        found = ensure_format(store, root, create=create)
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
    """Open a log over given stores: for tests, simulators, and stores of your own.

    Args:
        path, znodes: as `open` would take them; tasks in other processes open the log by them.
        store, files, clock: the parts; the log closes `store`.
        background: another way to do two things at a time than by threads.
    """
    found = ensure_format(store, path, create=create)
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
    """Copy all metadata of a log, which nobody uses, into another store; the data files stay where they are.

    A copy that was killed or failed leaves a store that cannot be opened, and the next one starts from scratch.

    Args:
        log: it is only read. Nobody may use it any more once the copy is done: two stores over the same data files
            would remove each other's.
        to: the other store, as `znodes` of `open`; it must be empty.
        on_progress: called with the znodes done and in total.

    Returns:
        what was copied and compared; the log is ``open(log.path, znodes=to)`` now.

    Raises:
        UsageError: the other store holds something, or is no place for metadata.
        LogInUseError: somebody wrote to the log meanwhile. Stop every process that uses it, and copy again.
        UnsupportedFormatError: either store is of another oncelog.
        CorruptDataError: a znode cannot be read, or the other store does not return what was written.
    """
    place = place_of(log.path, to)
    if not place.scheme.is_lasting:
        raise UsageError("this store ends with this process: name one that lasts", to=str(place))
    target = open_store(log.path, place, create=True)
    try:
        return copying.copy(log.services.store, target, on_progress=on_progress)
    finally:
        target.close()


def _ensure_folder(store: ZnodeStore, files: FileStore, found: LogFormat, path: str) -> None:
    """See that the data files are where they were when the log was created; a new log marks its folder."""
    folder_mark.ensure(files, found.cluster_id, path, is_marked=found.folder_mark is not None)
    if found.folder_mark is not None:
        return
    marked = encode_format(replace(found, folder_mark=folder_mark.NAME))

    def note(view: ZnodeView) -> None:
        znode = view.get(paths.FORMAT)
        if znode is not None and znode.data != marked:
            view.set(paths.FORMAT, marked)

    resolving(lambda: store.transact(note))
