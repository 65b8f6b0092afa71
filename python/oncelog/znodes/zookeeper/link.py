"""A process's link to ZooKeeper: opens a session at the first use, and another one when it has ended.

A session is never inherited: a forked child opens its own at its first use, and must neither use nor end its parent's.
Reads on a new session are never older than what this process has seen: it begins with a sync, and only on a server that
has seen as much.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref

from oncelog.errors import IllegalStateTransitionError, InvalidOptionError, StoreAccessError, StoreUnavailableError
from oncelog.znodes.zookeeper.address import ZookeeperAddress
from oncelog.znodes.zookeeper.failures import NoAnswerError
from oncelog.znodes.zookeeper.session import Session

_PAUSE_S = 0.05
_REFUSALS_BELIEVED = 3
"""After this many refusals the credentials count as wrong. A server that stops while it checks them looks the same."""

_links: weakref.WeakSet[Link] = weakref.WeakSet()


class Link:
    """The sessions of one store in this process, one at a time. Threads share them.

    Args:
        create: whether to create a missing chroot.
    """

    def __init__(self, address: ZookeeperAddress, *, create: bool) -> None:
        self._address = address
        self._creates = create
        self._is_closed = False
        self._seen_zxid = 0
        self._session: Session | None = None
        self._connecting = threading.RLock()
        _links.add(self)

    def __del__(self) -> None:
        session: Session | None = getattr(self, "_session", None)
        if session is not None and not sys.is_finalizing():
            session.abandon()  # its threads would keep it alive forever

    def deadline_s(self) -> float:
        """The time by `time.monotonic` at which a call that begins now gives up."""
        return time.monotonic() + self._address.timeout_ms / 1000

    def is_past(self, deadline_s: float) -> bool:
        return time.monotonic() >= deadline_s

    def session(self, deadline_s: float) -> Session:
        """A session that is alive, as far as is known.

        Raises:
            StoreUnavailableError: no server accepted this client before the deadline.
            StoreAccessError: the servers deny this client access, or everyone may change the chroot.
            InvalidOptionError: the chroot does not exist and must not be created, or there are no credentials.
        """
        session = self._session
        if session is not None and not session.is_over:
            return session
        try:
            if not self._connecting.acquire(timeout=max(0.0, deadline_s - time.monotonic())):
                raise self.unavailable("another thread is connecting")
            return self._connected(deadline_s)
        finally:
            try:  # noqa: SIM105 - a signal within `suppress` would leave it acquired
                self._connecting.release()
            except RuntimeError:  # it was not acquired
                pass

    def unavailable(self, reason: object) -> StoreUnavailableError:
        """The error for a call that timed out, and whose request was never sent or changes nothing."""
        return StoreUnavailableError(
            "no answer from ZooKeeper within the time-out, and nothing was written; check that the servers run, have a "
            "quorum, and can be reached from here, then make the same call again",
            zookeeper=str(self._address),
            timeout_ms=self._address.timeout_ms,
            reason=str(reason),
        )

    def close(self) -> None:
        """End the session, and open no other one. A thread that is connecting ends its session when it is connected."""
        self._is_closed = True
        session = self._session
        if session is not None:
            session.close()

    def forget_inherited(self) -> None:
        """In a forked child: forget the parent's session, but not what it has seen."""
        self._connecting = threading.RLock()
        self._let_go()

    def _connected(self, deadline_s: float) -> Session:
        self._ensure_open()
        session = self._session
        if session is not None and session.is_over:
            session.abandon()
            self._let_go()
        elif session is not None:
            return session
        session = self._session = self._opened(deadline_s)
        if self._is_closed:
            session.close()
        self._ensure_open()
        return session

    def _ensure_open(self) -> None:
        if self._is_closed:
            raise IllegalStateTransitionError("the znode store is closed", zookeeper=str(self._address))

    def _let_go(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            self._seen_zxid = max(self._seen_zxid, session.seen_zxid)

    def _opened(self, deadline_s: float) -> Session:
        refusals = 0
        while True:
            session = Session(self._address, self._seen_zxid)
            try:
                session.begin(deadline_s)
                self._enter_chroot(session, deadline_s)
            except NoAnswerError as problem:
                session.abandon()
                if time.monotonic() + _PAUSE_S >= deadline_s:
                    raise self.unavailable(problem) from None
            except StoreAccessError:
                session.abandon()
                refusals += 1
                if refusals == _REFUSALS_BELIEVED or time.monotonic() + _PAUSE_S >= deadline_s:
                    raise
            except BaseException:
                session.abandon()
                raise
            else:
                return session
            time.sleep(_PAUSE_S)

    def _enter_chroot(self, session: Session, deadline_s: float) -> None:
        if not session.has_chroot(deadline_s):
            if not self._creates:
                raise InvalidOptionError(
                    "there is no such chroot on this ZooKeeper; check the URL, or create a log there with "
                    "oncelog.open(path, znodes) or `oncelog topic create`",
                    zookeeper=str(self._address),
                )
            session.create_chroot(deadline_s)
        self._creates = False
        session.ensure_private(deadline_s)


def _forget_inherited() -> None:
    for link in list(_links):
        link.forget_inherited()


os.register_at_fork(after_in_child=_forget_inherited)
