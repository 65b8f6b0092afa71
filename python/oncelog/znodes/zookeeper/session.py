"""One session with ZooKeeper on one connection, which all threads of a process use until the first failure.

Requests are applied in the order in which they were sent. If a request gets no answer, the session ends, and the link
opens another one.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
import weakref
from collections.abc import Iterable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

from oncelog.extras import extras, install

with extras("zookeeper", part="oncelog.znodes.zookeeper"):
    from kazoo.client import KazooClient
    from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError, UnimplementedError
    from kazoo.protocol.states import KazooState
    from kazoo.retry import KazooRetry
    from kazoo.security import ANYONE_ID_UNSAFE, CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, Permissions

from oncelog.errors import InvariantViolation, StoreAccessError, UsageError
from oncelog.ports import Check, Create, Delete, Op, Set, Stat, Znode
from oncelog.znodes.errors import MultiFailedError
from oncelog.znodes.rules import ROOT, join_path, split_path
from oncelog.znodes.watching import has_changed
from oncelog.znodes.zookeeper import reads
from oncelog.znodes.zookeeper.address import ZookeeperAddress
from oncelog.znodes.zookeeper.credentials import Auth
from oncelog.znodes.zookeeper.failures import NoAnswerError, is_by_another, refusal_of, translated
from oncelog.znodes.zookeeper.handler import OneConnectionHandler

_LOOK_S = 0.1
"""Interval at which a caller that waits for an answer checks whether the session is over."""

_BYE_S = 1.0
"""How long a server has to answer when a session is closed."""

_log = logging.getLogger(__name__)
_log.addFilter(lambda record: record.levelno >= logging.ERROR)
"""kazoo's log. Lower levels would show requests with credentials; its warnings become errors of oncelog."""

_sessions: weakref.WeakSet[Session] = weakref.WeakSet()
_inherited: list[Session] = []
"""In a forked child: the parent's sessions, kept alive so that no finalizer touches them."""


class Session:
    """A session; call `begin` before the first request.

    Args:
        seen_zxid: the highest zxid that this process has seen. A server that is behind it is not used.
    """

    def __init__(self, address: ZookeeperAddress, seen_zxid: int) -> None:
        self._address = address
        self._root = address.chroot
        self._acl = OPEN_ACL_UNSAFE if address.auth is None else CREATOR_ALL_ACL
        self.seen_zxid = seen_zxid
        self.is_over = False
        """Whether it has ended, or is about to end: requests may never be answered."""
        self._ending = threading.Lock()
        self._waiting: dict[threading.Event, frozenset[str]] = {}
        """Of each thread that waits: what wakes it, and the znodes whose changes do, with the chroot."""
        timeout_s = address.timeout_ms / 1000 / (address.servers.count(",") + 1)
        self._handler = OneConnectionHandler(timeout_s, address.tls.context() if address.tls else None)
        self._client = KazooClient(
            hosts=address.servers,
            timeout=address.session_ms / 1000,
            handler=self._handler,
            connection_retry=KazooRetry(max_tries=-1, delay=0.05, max_delay=1.0),
            logger=_log,
            **_identification(address),
        )
        self._client.last_zxid = seen_zxid
        self._client.add_listener(self._note)
        _sessions.add(self)

    def begin(self, deadline_s: float) -> None:
        """Connect, authenticate, and catch up with all writes that were acknowledged before.

        Raises:
            NoAnswerError: no server accepted this client before the deadline.
            StoreAccessError: the servers deny this client access.
        """
        connected = self._client.start_async()
        while not connected.wait(min(_LOOK_S, max(0.0, deadline_s - time.monotonic()))):
            if self.is_over or time.monotonic() >= deadline_s:
                raise NoAnswerError(self._handler.problem or "no server answers")
        self.sync(deadline_s)

    # Requests

    def sync(self, deadline_s: float) -> None:
        """Catch up with the leader."""
        self._answer(self._client.sync_async(self._root), deadline_s)

    def get_many(self, paths: Iterable[str], deadline_s: float) -> list[Znode | None]:
        """The znode at each path, read together if the servers can; all requests are sent at once."""
        places = [self._place(path) for path in paths]
        if len(places) < 2 or self._address.servers in reads.APART:
            asked = [self._client.get_async(place) for place in places]
            return [self._znode(request, deadline_s) for request in asked]
        return [
            self._found(one)
            for request in reads.read_many(self._client, places)
            for one in self._answer_together(request, deadline_s)
        ]

    def await_change(self, paths: Iterable[str], since_zxid: int, timeout_s: float, deadline_s: float) -> None:
        """Return once one of these znodes was written after `since_zxid`, or is gone, or after `timeout_s`.

        Watches that were not needed stay until their znodes change. There is one for each znode and session, however
        often it is waited for.

        Args:
            deadline_s: for the requests, by `time.monotonic`.
        """
        places = frozenset(self._place(path) for path in paths)
        end_s = time.monotonic() + timeout_s
        changed = threading.Event()
        self._waiting[changed] = places
        try:
            asked = [self._client.get_async(place, watch=self._note_change) for place in places]
            if has_changed([self._znode(request, deadline_s) for request in asked], since_zxid):
                return
            while not self.is_over and (left_s := end_s - time.monotonic()) > 0:
                if changed.wait(min(_LOOK_S, left_s)):
                    return
        finally:
            del self._waiting[changed]

    def children(self, path: str, deadline_s: float) -> list[str]:
        """Sorted names of the children; none if the znode does not exist."""
        try:
            names: list[str] = self._answer(self._client.get_children_async(self._place(path)), deadline_s)
        except NoNodeError:
            return []
        return sorted(names)

    def commit(self, ops: Sequence[Op], deadline_s: float) -> None:
        """Apply a multi.

        Raises:
            MultiFailedError: an operation's condition does not hold. Nothing was applied.
            NoAnswerError: it may or may not have been applied.
        """
        transaction = self._client.transaction()
        for op in ops:
            path = self._place(op.path)
            match op:
                case Check(_, version):
                    transaction.check(path, version)
                case Create(_, data):
                    transaction.create(path, data, acl=self._acl)
                case Set(_, data, version):
                    transaction.set_data(path, data, version)
                case Delete(_, version):
                    transaction.delete(path, version)
        # kazoo returns the errors of a multi as values. All of them except one only say that another operation failed.
        results = self._answer(transaction.commit_async(), deadline_s)
        for index, result in enumerate(results):
            if isinstance(result, Exception) and not is_by_another(result):
                refusal = refusal_of(result)
                if refusal is None:
                    raise translated(result, zookeeper=str(self._address), path=ops[index].path)
                raise MultiFailedError.at(index, ops[index].path, refusal)

    # The chroot

    def has_chroot(self, deadline_s: float) -> bool:
        return self._answer(self._client.exists_async(self._root), deadline_s) is not None

    def create_chroot(self, deadline_s: float) -> None:
        """Create the chroot and its missing ancestors. Safe to repeat."""
        missing = [self._root]
        while (above := split_path(missing[-1])[0]) != ROOT:
            missing.append(above)
        for path in reversed(missing):
            with suppress(NodeExistsError):
                self._answer(self._client.create_async(path, b"", acl=self._acl), deadline_s)

    def ensure_private(self, deadline_s: float) -> None:
        """If this client has credentials, refuse a chroot that everyone may change.

        Raises:
            StoreAccessError: everyone may change the chroot, or this client has no access to it.
        """
        if self._address.auth is None:
            return
        acls, _ = self._answer(self._client.get_acls_async(self._root), deadline_s)
        if any(acl.id == ANYONE_ID_UNSAFE and acl.perms & ~Permissions.READ for acl in acls):
            raise StoreAccessError(
                "credentials are given, but everyone may change the chroot: set its ACL (zkCli.sh: setAcl -R), or name "
                "a chroot that does not exist yet",
                zookeeper=str(self._address),
            )

    # The end

    def abandon(self) -> None:
        """End the session without telling the server, which may be gone. Several threads may call it."""
        self.is_over = True
        self._handler.cut()
        if not self._is_first_to_end():
            return
        # In a thread, because a client that is connecting notices the end only after its time-out.
        threading.Thread(target=self._stop, name="oncelog-zookeeper-stop", daemon=True).start()

    def close(self) -> None:
        """End the session, and tell the server."""
        self.is_over = True
        if not self._is_first_to_end():
            return
        self._handler.shut()
        cut = threading.Timer(_BYE_S, self._handler.cut)
        cut.daemon = True
        cut.start()
        self._stop()
        cut.cancel()
        cut.join()

    def disown(self) -> None:
        """In a forked child: never use or end this session, which belongs to the parent."""
        self.is_over = True
        atexit.unregister(self._handler.stop)
        _inherited.append(self)

    def _is_first_to_end(self) -> bool:
        return self._ending.acquire(blocking=False)  # never released

    def _stop(self) -> None:
        with suppress(KazooException):  # a thread of kazoo may take long to end, but it is a daemon
            self._client.stop()
            self._client.close()

    # Inside

    def _note(self, state: str) -> None:
        """Called by kazoo, in its own thread, at each change of the connection."""
        self._handler.shut()
        if state != KazooState.CONNECTED:
            self.is_over = True

    def _note_change(self, event: Any) -> None:
        """Called by kazoo, in its own thread, when a watched znode was changed, and when the session ends."""
        for changed, places in list(self._waiting.items()):
            if event.path is None or event.path in places:
                changed.set()

    def _place(self, path: str) -> str:
        split_path(path)  # raises the same error as other stores for a path that ZooKeeper would refuse
        return self._root if path == ROOT else join_path(self._root, path[1:])

    def _znode(self, request: Any, deadline_s: float) -> Znode | None:
        try:
            data, stat = self._answer(request, deadline_s)
        except NoNodeError:
            return None
        return _znode(data, stat)

    def _answer_together(self, request: Any, deadline_s: float) -> list[Any]:
        """The answer to a request for several znodes. Servers that do not know it end the session with their answer."""
        try:
            answer: list[Any] = self._answer(request, deadline_s)
        except InvariantViolation:
            if not isinstance(request.exception, UnimplementedError):
                raise
            reads.APART.add(self._address.servers)
            raise NoAnswerError("the servers are older than 3.6") from None
        return answer

    def _found(self, one: Any) -> Znode | None:
        """A part of such an answer."""
        if isinstance(one, NoNodeError):
            return None
        if isinstance(one, Exception):
            raise translated(one, zookeeper=str(self._address))
        return _znode(*one)

    def _answer(self, request: Any, deadline_s: float) -> Any:
        """Wait for the answer. Refusals are raised unchanged, all other errors as in `translated`."""
        while not request.wait(min(_LOOK_S, max(0.0, deadline_s - time.monotonic()))):
            # When the connection ends, kazoo answers all waiting requests, but never one that is sent right after that.
            if self.is_over or time.monotonic() >= deadline_s:
                break
        try:
            answer = request.get_nowait()
        except Exception as error:  # kazoo also raises errors that are not KazooExceptions
            if refusal_of(error) is not None:
                raise
            raise translated(error, zookeeper=str(self._address)) from None
        self.seen_zxid = max(self.seen_zxid, self._client.last_zxid)
        return answer


def _znode(data: bytes | None, stat: Any) -> Znode:
    return Znode(data or b"", Stat(stat.czxid, stat.mzxid, stat.ctime, stat.mtime, stat.version))


def _identification(address: ZookeeperAddress) -> dict[str, Any]:
    """Kazoo's settings for authentication."""
    if address.place is None:
        return {}
    credentials = address.place.read()
    if address.auth is Auth.DIGEST:
        return {"auth_data": [("digest", f"{credentials.user}:{credentials.password}")]}
    if find_spec("puresasl") is None:
        raise UsageError(f"auth=sasl needs the package pure-sasl: {install('zookeeper')}")
    return {
        "sasl_options": {
            "mechanism": "DIGEST-MD5",
            "username": credentials.user,
            "password": credentials.password,
        }
    }


def _disown_all() -> None:
    for session in list(_sessions):
        session.disown()


os.register_at_fork(after_in_child=_disown_all)
