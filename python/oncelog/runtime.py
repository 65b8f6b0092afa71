"""The composition root: turns a URI and options into an open log, and closes what it opened.

Everything below receives its parts from here; nothing below reads the environment or builds its own store.
"""

from __future__ import annotations

from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Annotated, NamedTuple, Self

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
from oncelog.log import folder_mark
from oncelog.log.files import absolute, file_store, is_object_store, local_path, usable
from oncelog.ports import Background, Clock, FileStore, ZnodeStore, ZnodeView
from oncelog.protocol.partition import TopicState
from oncelog.randomness import random_id
from oncelog.signatures import checked
from oncelog.types import IsolationLevel
from oncelog.znodes import copying, paths
from oncelog.znodes.clock import SystemClock
from oncelog.znodes.copying import Copied, Progress
from oncelog.znodes.memory import MemoryZnodeStore
from oncelog.znodes.sqlite import SqliteZnodeStore, is_there
from oncelog.znodes.transact import resolving

ZNODES_FILE = "znodes.sqlite"


class Log:
    """An open log. Made by `open`; close it, or use it as a context manager.

    Safe to use from several threads; its producers and consumers are not. A forked child opens the log anew.

    Attributes:
        path: root of the data files.
        znodes: where the metadata is; None for the SQLite file below `path`.
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
    ) -> Producer:
        """A producer: idempotent, and transactional with a `transactional_id`.

        Args:
            transactional_id: stable over restarts of the same task; a new producer of it fences older ones.
            transaction_timeout_ms: an open transaction may be aborted by anyone after this long.
            codec: compression of record batches: zstd, lz4 or null.
            delivery_timeout_ms: how long retriable errors are retried.
        """
        return Producer(
            self.services,
            transactional_id=transactional_id,
            transaction_timeout_ms=transaction_timeout_ms,
            codec_name=codec,
            delivery_timeout_ms=delivery_timeout_ms,
        )

    @checked
    def consumer(
        self,
        *,
        group_id: str | None = None,
        isolation_level: IsolationLevel | str = IsolationLevel.READ_COMMITTED,
        auto_offset_reset: str = "latest",
    ) -> Consumer:
        """A consumer of assigned or subscribed partitions; there is no rebalancing.

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
        """Close the log's stores. Clients made from it cannot be used any more."""
        self.services.store.close()

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
        path: folder of the data files, or ``s3://bucket/folder`` with `znodes` elsewhere.
        znodes: where the metadata is: left out or ``sqlite`` for one SQLite file in `path`, ``sqlite:/a/file`` for
            another place, ``zk://host:port,host:port/chroot`` for a ZooKeeper ensemble that serves several hosts,
            ``memory`` for a store that dies with the process (tests).
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
    store = _open_store(root, znodes, create=create, files=files)
    try:
        found = _ensure_format(store, root, create=create)
        _ensure_folder(store, files, found, root)
        return _log(root, znodes, store, files, SystemClock(), Threads(), found.cluster_id)
    except BaseException:
        store.close()
        raise


@checked
def open_metadata(place: str, *, create: bool = True) -> ZnodeStore:
    """Open a znode store by itself, for ledgers over data that is elsewhere (a Kafka cluster's).

    Args:
        place: ``zk://host:port,host:port/chroot``, ``sqlite:/a/file``, ``memory``, or a folder for a SQLite file.
        create: whether the store may be created; otherwise a missing one is an error.

    Raises:
        UsageError, StoreHostError, UnsupportedFormatError: see `open`.
    """
    named = place.partition(":")[0] in {"zk", "sqlite", "memory"}
    root, znodes = (".", place) if named else (absolute(place), None)
    store = _open_store(root, znodes, create=create)
    try:
        _ensure_format(store, place, create=create)
    except BaseException:
        store.close()
        raise
    return store


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
    found = _ensure_format(store, path, create=create)
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


def _open_store(root: str, znodes: str | None, *, create: bool, files: FileStore | None = None) -> ZnodeStore:
    scheme, _, place = (znodes or "sqlite").partition(":")
    if scheme == "memory":
        return MemoryZnodeStore()
    if scheme == "zk":
        return _zookeeper_store(znodes or "", create=create)
    if scheme != "sqlite":
        raise UsageError(
            "not a znode store: leave it out, or give sqlite:<file> or zk://host:port/chroot", scheme=scheme
        )
    file = _sqlite_file(root, place)
    if not create and not is_there(file):
        raise _no_log(root)
    # A log's file is there before its folder is marked, so it is looked for once more behind the look at the mark.
    if files is not None and not is_there(file) and folder_mark.is_there(files) and not is_there(file):
        raise UsageError(
            "the folder holds the data of a log whose metadata is elsewhere: say where, by znodes",
            path=root,
            missing=str(file),
        )
    return SqliteZnodeStore(file, create=create)


def _zookeeper_store(url: str, *, create: bool) -> ZnodeStore:
    if find_spec("kazoo") is None:
        raise UsageError("znodes=zk://... needs the package kazoo: pip install 'oncelog[zookeeper]'")
    from oncelog.znodes.zookeeper import ZookeeperZnodeStore

    return ZookeeperZnodeStore(url, create=create)


def _sqlite_file(root: str, place: str) -> Path:
    if place:
        return Path(usable(place))
    if is_object_store(root):
        raise UsageError(
            "an object store holds the data files only; say where the metadata is, by znodes=zk://host:port/chroot, or "
            "by znodes=sqlite:/a/file where one host uses the log",
            path=root,
        )
    return local_path(root) / ZNODES_FILE


def _no_log(path: str) -> UsageError:
    return UsageError(
        "there is no log here; check the path, or create one by oncelog.open(path) or `oncelog topic create`", path=path
    )


@checked
def adopt_host(path: str | PathLike[str], znodes: str | None = None) -> None:
    """Make the SQLite store of a log this host's own, after a move or when its former host is gone.

    Only when no process of the former host uses it any more: SQLite on two hosts at once loses data.

    Args:
        path, znodes: as for `open`.

    Raises:
        UsageError: the metadata is not in SQLite, or there is none.
    """
    scheme, _, place = (znodes or "sqlite").partition(":")
    if scheme != "sqlite":
        raise UsageError("only a SQLite store belongs to a host", znodes=znodes)
    file = _sqlite_file(str(path), place)
    if not is_there(file):
        raise _no_log(str(path))
    SqliteZnodeStore.adopt_host(file)


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
    if to.partition(":")[0] == "memory":
        raise UsageError("a store in memory ends with this process: name one that lasts", to=to)
    target = _open_store(log.path, to, create=True)
    try:
        return copying.copy(log.services.store, target, on_progress=on_progress)
    finally:
        target.close()


class _Format(NamedTuple):
    """What a log's ``/format`` says: its id, and whether the folder of its files bears its mark."""

    cluster_id: str
    is_folder_marked: bool = False

    @classmethod
    def of(cls, data: bytes) -> _Format:
        cluster_id = copying.cluster_id_of(data)
        return cls(cluster_id, paths.decode(paths.FORMAT, data, lambda payload: "folder" in payload))

    def encoded(self) -> bytes:
        marked = {"folder": folder_mark.NAME} if self.is_folder_marked else {}
        return paths.encode({"cluster_id": self.cluster_id, **marked})


def _ensure_format(store: ZnodeStore, path: str, *, create: bool) -> _Format:
    """Create the log's fixed znodes unless they are there; returns what ``/format`` says."""
    fresh = _Format(random_id())

    def step(view: ZnodeView) -> _Format:
        znode = view.get(paths.FORMAT)
        if znode is not None:
            return _Format.of(znode.data)
        if not create:
            raise _no_log(path)
        view.create(paths.FORMAT, fresh.encoded())
        view.create(paths.CLOCK)
        view.create(paths.COMMITS)
        view.create(paths.PRODUCER_IDS, paths.encode({"next": 0}))
        view.create(paths.GENERATION, paths.encode({"generation": 1}))
        for folder in (paths.TOPICS, paths.TRANSACTIONS, paths.GROUPS, paths.QUERIES):
            view.create(folder)
        return fresh

    return resolving(lambda: store.transact(step))  # whose own id it finds: an earlier run of it won


def _ensure_folder(store: ZnodeStore, files: FileStore, found: _Format, path: str) -> None:
    """See that the data files are where they were when the log was created; a new log marks its folder."""
    folder_mark.ensure(files, found.cluster_id, path, is_marked=found.is_folder_marked)
    if found.is_folder_marked:
        return
    marked = found._replace(is_folder_marked=True).encoded()

    def note(view: ZnodeView) -> None:
        znode = view.get(paths.FORMAT)
        if znode is not None and znode.data != marked:
            view.set(paths.FORMAT, marked)

    resolving(lambda: store.transact(note))
