"""Opens metadata stores: the store of a log, or a store by itself, for ledgers over data that is elsewhere.

It must not import the index or the clients of a log: a connector whose data is on its own servers starts without them.
"""

from __future__ import annotations

from os import PathLike

from oncelog.errors import UsageError
from oncelog.log import folder_mark
from oncelog.log.files import absolute
from oncelog.ports import FileStore, ZnodeStore, ZnodeView
from oncelog.randomness import random_id
from oncelog.signatures import checked
from oncelog.znodes import copying, log_payloads, paths
from oncelog.znodes.log_payloads import LogFormat, decode_format
from oncelog.znodes.schemes import Place
from oncelog.znodes.transact import resolving


@checked
def open_metadata(place: str, *, create: bool = True) -> ZnodeStore:
    """Open a znode store by itself, for ledgers over data that is elsewhere (on a Kafka cluster).

    Args:
        place: as `znodes` of `oncelog.open`.
        create: whether a missing store may be created.

    Raises:
        UsageError, StoreHostError, UnsupportedFormatError: see `oncelog.open`.
    """
    named = place_of(absolute("."), place)
    return checked_store(open_store(None, named, create=create), None, named, create=create)


def checked_store(store: ZnodeStore, path: str | None, place: Place | None, *, create: bool) -> ZnodeStore:
    """A store that was opened by itself, once `ensure_format` found nothing wrong with it; otherwise it is closed."""
    try:
        ensure_format(store, path, place, create=create)
    except BaseException:
        store.close()
        raise
    return store


def open_target(place: Place, root: str) -> ZnodeStore:
    """Open a store for a copy of metadata. Raises a UsageError if it would end with this process."""
    if not place.scheme.is_lasting:
        raise UsageError("the target store ends with this process; name one that lasts", to=str(place))
    return open_store(root, place, create=True)


@checked
def adopt_host(path: str | PathLike[str], znodes: str | None = None) -> None:
    """Make this host the owner of a log's SQLite store, after the store moved or its former host is gone.

    Stop all processes of the former host first: a SQLite file that two hosts use at once loses data.

    Args:
        path, znodes: as in `oncelog.open`.

    Raises:
        UsageError: there is no store, or it is of a kind that belongs to no host.
    """
    place = place_of(absolute(path), znodes)
    if not place.is_there():
        raise _no_log(absolute(path), place)
    place.adopt_host()


def place_of(root: str, znodes: str | None) -> Place:
    """Where the metadata of the log at `root` is."""
    return Place.of("sqlite" if znodes is None else znodes, root)


def open_store(root: str | None, place: Place, *, create: bool, files: FileStore | None = None) -> ZnodeStore:
    """Open the store at a place. With `files`, refuse to create one if the folder's log has its metadata elsewhere.

    Args:
        root: of the log, for the errors; None for a store by itself.
    """
    if not create and not place.is_there():
        raise _no_log(root, place)
    # A log's store exists before its folder is marked: look for the store again after the mark was found.
    if files is not None and not place.is_there() and folder_mark.is_there(files) and not place.is_there():
        raise UsageError(
            "the folder holds the data of a log whose metadata is elsewhere; name that store with znodes",
            path=root,
            missing=str(place),
        )
    return place.open(create=create)


def _no_log(path: str | None, place: Place | None) -> UsageError:
    if place is None or (path is not None and place.is_default_of(path)):
        return UsageError(
            "there is no log here; check the path, or create one with oncelog.open(path) or `oncelog topic create`",
            path=path,
        )
    return UsageError(
        "there is no log or ledger in the store that znodes names; check znodes, or create a log with "
        "oncelog.open(path, znodes) or `oncelog topic create --znodes`",
        znodes=str(place),
    )


def ensure_format(store: ZnodeStore, path: str | None, place: Place | None, *, create: bool) -> LogFormat:
    """Create the log's fixed znodes if they are missing; returns the content of ``/format``.

    Args:
        path, place: of the log and of the store, for the error. A store by itself has no path, and one that the caller
            made has no place.
    """
    cluster_id = random_id()

    def step(view: ZnodeView) -> LogFormat:
        znode = view.get(paths.FORMAT)
        if znode is not None:
            copying.cluster_id_of(znode.data)
            return decode_format(znode.data)
        if not create:
            raise _no_log(path, place)
        for fixed, data in log_payloads.of_new_log(cluster_id):
            view.create(fixed, data)
        return LogFormat(cluster_id)

    return resolving(lambda: store.transact(step))  # a repetition finds the id that an earlier run of it wrote
