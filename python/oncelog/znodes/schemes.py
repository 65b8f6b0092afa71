"""Which znode stores there are, and how a user's text becomes one of them: ``sqlite:/a/file``, ``zk://host/chroot``...

A store is a package. It registers a `Scheme` as an entry point of the group `GROUP`, under the name of the scheme, and
oncelog needs no edit; docs/guides/extending-store.md shows how. The built-in ones are a literal table instead, so that
they are there where oncelog runs without the metadata of its installation: from a zip, or from Spark's py-files.

Nothing else in oncelog asks which scheme a store has.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from oncelog.errors import InvalidOptionError, UsageError
from oncelog.folders import absolute, is_servers, local_path
from oncelog.ports import ZnodeStore
from oncelog.znodes.memory import MemoryZnodeStore
from oncelog.znodes.sqlite import SqliteZnodeStore, is_there

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP: Final = "oncelog.znode_stores"

ZNODES_FILE: Final = "znodes.sqlite"
"""The store of a log that names none, in the folder of its data."""

_URL = re.compile("([A-Za-z][A-Za-z0-9+.-]+):.*", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """One kind of znode store, as oncelog needs to know it. A URL is the scheme's name, a colon, and what it likes.

    Attributes:
        open: opens the store at a URL that `normalised` returned. The second argument says whether it may create one.
        normalised: checks a user's URL and returns the one by which any process finds the same store. The second
            argument is where the log's data is: an absolute folder, or the URL of a bucket. Raises InvalidOptionError.
        shown: the URL as it may be printed and logged. One that may hold secrets must leave them out.
        is_there: False where it is known, without asking a server, that there is no store at the URL. Then nothing is
            opened that must not be created.
        adopt_host: makes the store at a URL this host's own (``oncelog meta adopt-host``); None if it belongs to none.
        is_lasting: whether the store outlives its process; else no metadata is copied into it.
    """

    open: Callable[[str, bool], ZnodeStore]
    normalised: Callable[[str, str], str] = lambda url, root: url
    shown: Callable[[str], str] = lambda url: url
    is_there: Callable[[str], bool] = lambda url: True
    adopt_host: Callable[[str], None] | None = None
    is_lasting: bool = True


@dataclass(frozen=True, slots=True)
class Place:
    """Where a store is.

    Attributes:
        scheme: of its URL.
        url: normalised: any process finds the same store by it.
    """

    scheme: Scheme
    url: str

    def __str__(self) -> str:
        return self.scheme.shown(self.url)

    @classmethod
    def of(cls, url: str, root: str) -> Place:
        """Read what a user wrote.

        Args:
            url: the name of a scheme, a URL, or the path of a folder, in which there is a SQLite file then.
            root: where the log's data is: an absolute folder, or the URL of a bucket.

        Raises:
            UsageError: there is no such scheme, or its package cannot be used.
            InvalidOptionError: the URL is malformed.
        """
        if is_folder(url):
            url = f"sqlite:{local_path(url) / ZNODES_FILE}"
        if is_servers(url):
            raise UsageError("a znode store of several hosts is named by its scheme", znodes=url, write=f"zk://{url}")
        scheme = scheme_named(url.partition(":")[0])
        return cls(scheme, scheme.normalised(url, root))

    def is_there(self) -> bool:
        """Whether there may be a store; see `Scheme`."""
        return self.scheme.is_there(self.url)

    def open(self, *, create: bool) -> ZnodeStore:
        """Open the store.

        Args:
            create: whether it may be created.
        """
        return self.scheme.open(self.url, create)

    def adopt_host(self) -> None:
        """Make the store this host's own.

        Raises:
            UsageError: it belongs to no host.
        """
        if self.scheme.adopt_host is None:
            raise UsageError("this znode store belongs to no host, so there is nothing to adopt", znodes=str(self))
        self.scheme.adopt_host(self.url)


def is_folder(text: str) -> bool:
    """Whether a text is the path of a folder: a slash or ``.`` or ``~`` tells it from the name of a store."""
    found = _URL.fullmatch(text)
    return (found is None or found[1] == "file") and ("/" in text or text.startswith((".", "~")))


def scheme_named(name: str) -> Scheme:
    """The scheme of this name.

    Raises:
        UsageError: there is none, or its package cannot be used.
    """
    claims = [claim for claim in _claims(tuple(sys.path)) if claim.name == name]
    if name in BUILT_IN:
        if claims:
            raise UsageError(
                "a package claims a scheme of znode stores that is oncelog's own; remove the package",
                scheme=name,
                packages=_distributions(claims),
            )
        return BUILT_IN[name]
    if not claims:
        raise _unknown(name)
    if len(claims) > 1:
        raise UsageError(
            "several packages claim one scheme of znode stores; keep one of them",
            scheme=name,
            packages=_distributions(claims),
        )
    return _loaded(claims[0])


def shown(url: str) -> str:
    """A store's URL as it may be printed and logged.

    Raises:
        UsageError: see `Place.of`.
    """
    return scheme_named(url.partition(":")[0]).shown(url)


@lru_cache(maxsize=4)
def _claims(path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """The schemes of other packages. Looking for them takes some milliseconds; `path` is where Python looks."""
    from importlib.metadata import entry_points  # a tenth of what `import oncelog` takes

    return tuple(entry_points(group=GROUP))


def _loaded(claim: EntryPoint) -> Scheme:
    about = {"scheme": claim.name, "package": _distributions([claim])[0], "entry_point": claim.value}
    try:
        found = claim.load()
    except Exception as error:
        raise UsageError("the package of this znode store cannot be loaded", **about, reason=repr(error)) from error
    if not isinstance(found, Scheme):
        raise UsageError("what the package of this znode store registers is no oncelog.znodes.schemes.Scheme", **about)
    return found


def _distributions(claims: Sequence[EntryPoint]) -> list[str]:
    return sorted("unknown" if claim.dist is None else claim.dist.name for claim in claims)


def _unknown(name: str) -> UsageError:
    known = sorted({*BUILT_IN, *(claim.name for claim in _claims(tuple(sys.path)))})
    near = difflib.get_close_matches(name, known, n=1)
    return UsageError(
        "not a znode store: give a folder (./name), sqlite:/a/file, zk://host:port/chroot, or the URL of another "
        "installed store",
        scheme=name,
        known=known,
        **({"did_you_mean": near[0]} if near else {}),
    )


# Built-in ------------------------------------------------------------------------------------------------------------


def _sqlite_url(url: str, root: str) -> str:
    place = url.partition(":")[2]
    if place:
        return f"sqlite:{absolute(place)}"
    if "://" in root:
        raise UsageError(
            "an object store holds the data files only; say where the metadata is, by znodes=zk://host:port/chroot, or "
            "by znodes=sqlite:/a/file where one host uses the log",
            path=root,
        )
    return f"sqlite:{Path(root) / ZNODES_FILE}"


def _sqlite_file(url: str) -> Path:
    return Path(url.removeprefix("sqlite:"))


def _memory_url(url: str, root: str) -> str:
    if url != "memory":
        raise InvalidOptionError("a store in memory has no place: write memory", znodes=url)
    return url


def _zookeeper_url(url: str, root: str) -> str:
    if find_spec("kazoo") is None:
        raise UsageError("znodes=zk://... needs the package kazoo: pip install 'oncelog[zookeeper]'")
    from oncelog.znodes.zookeeper.address import ZookeeperAddress

    return ZookeeperAddress.parse(url).url


def _zookeeper_store(url: str, create: bool) -> ZnodeStore:
    from oncelog.znodes.zookeeper import ZookeeperZnodeStore

    return ZookeeperZnodeStore(url, create=create)


BUILT_IN: Final = {
    "memory": Scheme(open=lambda url, create: MemoryZnodeStore(), normalised=_memory_url, is_lasting=False),
    "sqlite": Scheme(
        open=lambda url, create: SqliteZnodeStore(_sqlite_file(url), create=create),
        normalised=_sqlite_url,
        is_there=lambda url: is_there(_sqlite_file(url)),
        adopt_host=lambda url: SqliteZnodeStore.adopt_host(_sqlite_file(url)),
    ),
    "zk": Scheme(open=_zookeeper_store, normalised=_zookeeper_url),  # a URL of it holds no secrets (address.py)
}
