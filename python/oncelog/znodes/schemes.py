"""The registry of znode stores: finds the store for a user's text, such as ``sqlite:/a/file`` or ``zk://host/chroot``.

A package adds a store by registering a `Scheme` as an entry point in the group `GROUP`, under the scheme's name;
docs/guides/extending-store.md shows how. The built-in stores are in a table instead, so that they work even without the
installed package's metadata, as from a zip or Spark's py-files.

No other module may depend on a store's scheme.
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
from oncelog.extras import install
from oncelog.folders import absolute, is_servers, local_path
from oncelog.ports import ZnodeStore
from oncelog.znodes.memory import MemoryZnodeStore
from oncelog.znodes.sqlite import SqliteZnodeStore, is_there

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP: Final = "oncelog.znode_stores"

ZNODES_FILE: Final = "znodes.sqlite"
"""The default store, in the folder of the log's data."""

_URL = re.compile("([A-Za-z][A-Za-z0-9+.-]+):.*", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """One kind of znode store. Its URLs are the scheme's name, a colon, and anything that the scheme defines.

    Attributes:
        open: opens the store at a URL from `normalised`. The second argument says whether it may create the store.
        normalised: checks a user's URL, and returns a URL with which any process finds the same store. The second
            argument is the place of the log's data: an absolute folder, or the URL of a bucket. Raises
            InvalidOptionError.
        shown: returns the URL for printing and logging, without any secrets.
        is_there: returns False if it is known, without asking a server, that there is no store at the URL. A store that
            must not be created is not opened then.
        adopt_host: makes this host the owner of the store (``oncelog meta adopt-host``); None if stores of this scheme
            belong to no host.
        is_lasting: whether the store outlives its process. Otherwise no metadata can be copied into it.
    """

    open: Callable[[str, bool], ZnodeStore]
    normalised: Callable[[str, str], str] = lambda url, root: url
    shown: Callable[[str], str] = lambda url: url
    is_there: Callable[[str], bool] = lambda url: True
    adopt_host: Callable[[str], None] | None = None
    is_lasting: bool = True


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a store.

    Attributes:
        url: normalised, so that any process finds the same store with it.
    """

    scheme: Scheme
    url: str

    def __str__(self) -> str:
        return self.scheme.shown(self.url)

    @classmethod
    def of(cls, url: str, root: str) -> Place:
        """The place that a user's text names.

        Args:
            url: the name of a scheme, a URL, or the path of a folder (for a SQLite file in it).
            root: the place of the log's data: an absolute folder, or the URL of a bucket.

        Raises:
            UsageError: there is no such scheme, or its package cannot be used.
            InvalidOptionError: the URL is malformed.
        """
        if is_folder(url):
            url = f"sqlite:{local_path(url) / ZNODES_FILE}"
        if is_servers(url):
            raise UsageError("the URL of a ZooKeeper begins with zk://", znodes=url, write=f"zk://{url}")
        scheme = scheme_named(url.partition(":")[0])
        return cls(scheme, scheme.normalised(url, root))

    def is_default_of(self, root: str) -> bool:
        """Whether this is the store of a log at `root` whose user names none."""
        return "://" not in root and self.url == _sqlite_url("sqlite", root)

    def is_there(self) -> bool:
        """Whether a store may exist there; see `Scheme.is_there`."""
        return self.scheme.is_there(self.url)

    def open(self, *, create: bool) -> ZnodeStore:
        """Open the store; `create` says whether it may be created."""
        return self.scheme.open(self.url, create)

    def adopt_host(self) -> None:
        """Make this host the owner of the store. Raises a UsageError if such stores belong to no host."""
        if self.scheme.adopt_host is None:
            raise UsageError("this znode store belongs to no host, so there is nothing to adopt", znodes=str(self))
        self.scheme.adopt_host(self.url)


def is_folder(text: str) -> bool:
    """Whether a text is the path of a folder: unlike a store's name, it has a slash or begins with ``.`` or ``~``."""
    found = _URL.fullmatch(text)
    return (found is None or found[1] == "file") and ("/" in text or text.startswith((".", "~")))


def scheme_named(name: str) -> Scheme:
    """The scheme with this name. Raises a UsageError if there is none, or if its package cannot be used."""
    claims = [claim for claim in _claims(tuple(sys.path)) if claim.name == name]
    if name in BUILT_IN:
        if claims:
            raise UsageError(
                "a package registers a scheme of znode stores that oncelog has built in; remove the package",
                scheme=name,
                packages=_distributions(claims),
            )
        return BUILT_IN[name]
    if not claims:
        raise _unknown(name)
    if len(claims) > 1:
        raise UsageError(
            "several packages register the same scheme of znode stores; keep only one of them",
            scheme=name,
            packages=_distributions(claims),
        )
    return _loaded(claims[0])


def shown(url: str) -> str:
    """A store's URL for printing and logging, without secrets. Raises a UsageError: see `scheme_named`."""
    return scheme_named(url.partition(":")[0]).shown(url)


@lru_cache(maxsize=4)
def _claims(path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """The schemes of other packages, cached by Python's `path`, since the search takes some milliseconds."""
    from importlib.metadata import entry_points  # takes a tenth of the time of `import oncelog`

    return tuple(entry_points(group=GROUP))


def _loaded(claim: EntryPoint) -> Scheme:
    about = {"scheme": claim.name, "package": _distributions([claim])[0], "entry_point": claim.value}
    try:
        found = claim.load()
    except Exception as error:
        raise UsageError("the package of this znode store cannot be loaded", **about, reason=repr(error)) from error
    if not isinstance(found, Scheme):
        raise UsageError("the package of this znode store must register an oncelog.znodes.schemes.Scheme", **about)
    return found


def _distributions(claims: Sequence[EntryPoint]) -> list[str]:
    return sorted("unknown" if claim.dist is None else claim.dist.name for claim in claims)


def _unknown(name: str) -> UsageError:
    known = sorted({*BUILT_IN, *(claim.name for claim in _claims(tuple(sys.path)))})
    near = difflib.get_close_matches(name, known, n=1)
    return UsageError(
        "not a znode store: give a folder (./name), sqlite:/a/file, zk://host:port/chroot, "
        "postgresql://user@host/database, or the URL of another installed store",
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
            "say where the metadata of a log in a bucket is: znodes=s3 keeps it next to the files, for one or two "
            "writers; otherwise write znodes=postgresql://user@host/database or znodes=zk://host:port/chroot, or "
            "znodes=sqlite:/a/file if a single host uses the log",
            path=root,
        )
    return f"sqlite:{Path(root) / ZNODES_FILE}"


def _sqlite_file(url: str) -> Path:
    return Path(url.removeprefix("sqlite:"))


def _memory_url(url: str, root: str) -> str:
    if url != "memory":
        raise InvalidOptionError("a store in memory has no place: write only memory", znodes=url)
    return url


def _ensure_installed(package: str, who_needs: str, *, extra: str) -> None:
    if find_spec(package) is None:
        raise UsageError(f"{who_needs} the package {package}: {install(extra)}")


def _zookeeper_url(url: str, root: str) -> str:
    _ensure_installed("kazoo", "znodes=zk://... needs", extra="zookeeper")
    from oncelog.znodes.zookeeper.address import ZookeeperAddress

    return ZookeeperAddress.parse(url).url


def _zookeeper_store(url: str, create: bool) -> ZnodeStore:
    from oncelog.znodes.zookeeper import ZookeeperZnodeStore

    return ZookeeperZnodeStore(url, create=create)


def _postgres_url(url: str, root: str) -> str:
    _ensure_installed("psycopg", "znodes=postgresql://... needs", extra="postgres")
    from oncelog.znodes.postgres.address import PostgresAddress

    return PostgresAddress.parse(url).url


def _postgres_store(url: str, create: bool) -> ZnodeStore:
    from oncelog.znodes.postgres import PostgresZnodeStore

    return PostgresZnodeStore(url, create=create)


_POSTGRES: Final = Scheme(open=_postgres_store, normalised=_postgres_url)  # its URLs have no secrets (address.py)


def _s3_url(url: str, root: str) -> str:
    _ensure_installed("botocore", "znodes in a bucket need", extra="s3")
    from oncelog.znodes.replicated.s3 import normalised

    return normalised(url, root)


def _s3_store(url: str, create: bool) -> ZnodeStore:
    from oncelog.znodes.replicated.s3 import store

    return store(url, create=create)


BUILT_IN: Final = {
    "memory": Scheme(open=lambda url, create: MemoryZnodeStore(), normalised=_memory_url, is_lasting=False),
    "sqlite": Scheme(
        open=lambda url, create: SqliteZnodeStore(_sqlite_file(url), create=create),
        normalised=_sqlite_url,
        is_there=lambda url: is_there(_sqlite_file(url)),
        adopt_host=lambda url: SqliteZnodeStore.adopt_host(_sqlite_file(url)),
    ),
    "postgresql": _POSTGRES,
    "postgres": _POSTGRES,
    "s3": Scheme(open=_s3_store, normalised=_s3_url),  # nor have its URLs (buckets.py)
    "zk": Scheme(open=_zookeeper_store, normalised=_zookeeper_url),  # its URLs have no secrets (address.py)
}
