"""The znode store on ZooKeeper.

Reads, and multis with only checks, change nothing, so they are sent again until they are answered or the time is up. A
multi that writes is sent only once. If it gets no answer, its outcome is unknown, and the caller runs the same step
again (invariant I5). kazoo's own retries are not used, since they would send the write twice.

How late can a write be applied? ZooKeeper has no lock under which `is_fresh` could be called, so it is called right
before the request is given to a session. Assumptions: a session is one connection that is never renewed (handler.py). A
server ends a session that it has not heard from for the session's time-out, and applies nothing more of it. After that,
the leader refuses all requests of that session. Hence, if a process is suspended after `is_fresh`, or a server while it
has the request, the write is delayed by at most the session's time-out: some seconds to minutes, by the servers'
settings. limits.TOMBSTONE_MS is a day.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar

from oncelog.errors import OutcomeUnknownError, StoreAccessError
from oncelog.ports import Check, Clock, Op, Timing, Watch, Znode, ZnodeReader
from oncelog.znodes.clock import SYSTEM_CLOCK, SystemClock, uniform_jitter, wall_ms
from oncelog.znodes.rules import ROOT, ensure_acceptable, join_path, size_of
from oncelog.znodes.transact import IsFresh, Transacting, always_fresh, ensure_fresh
from oncelog.znodes.zookeeper.address import ZookeeperAddress
from oncelog.znodes.zookeeper.failures import NoAnswerError
from oncelog.znodes.zookeeper.link import Link
from oncelog.znodes.zookeeper.session import Session

T = TypeVar("T")


class ZookeeperZnodeStore(Transacting):
    """`ports.ZnodeStore` below one znode of a ZooKeeper ensemble, the chroot.

    Threads may share it. After a fork, each process opens its own session at its first use. A pickled store contains
    the URL, which names the place of the credentials, but never contains them.

    Args:
        url: ``zk://host:port,host:port/chroot?option=value``; address.py has the options.
        create: whether to create a missing chroot.
        now_ms, clock, jitter: see `ports.Timing`. The times of znodes are the servers'; `now_ms` is only used for the
            age of a step's reads.

    Raises:
        InvalidOptionError: the URL is malformed.
    """

    reads_are_atomic = False

    def __init__(
        self,
        url: str,
        *,
        create: bool = True,
        now_ms: Callable[[], int] = wall_ms,
        clock: Clock = SYSTEM_CLOCK,
        jitter: Callable[[], float] = uniform_jitter,
    ) -> None:
        self.address = ZookeeperAddress.parse(url)
        self.timing = Timing(now_ms, clock, jitter)
        self._link = Link(self.address, create=create)

    def __repr__(self) -> str:
        return f"ZookeeperZnodeStore({str(self.address)!r})"

    def get(self, path: str) -> Znode | None:
        return self.get_many([path])[0]

    def get_many(self, paths: Iterable[str]) -> list[Znode | None]:
        wanted = list(paths)
        found = self._asked(lambda session, deadline_s: session.get_many(wanted, deadline_s))
        if any(path == ROOT and znode is None for path, znode in zip(wanted, found, strict=True)):
            raise StoreAccessError("the chroot was removed while the log was open", zookeeper=str(self.address))
        return found

    def children(self, path: str) -> list[str]:
        return self._asked(lambda session, deadline_s: session.children(path, deadline_s))

    def children_data(self, path: str) -> list[tuple[str, Znode]]:
        names = self.children(path)
        found = self.get_many(join_path(path, name) for name in names)
        return [(name, znode) for name, znode in zip(names, found, strict=True) if znode is not None]

    @contextmanager
    def snapshot(self) -> Iterator[ZnodeReader]:
        yield self

    def multi(self, ops: Sequence[Op], *, is_fresh: IsFresh = always_fresh) -> None:
        ensure_acceptable(ops)

        def commit(session: Session, deadline_s: float) -> None:
            ensure_fresh(is_fresh)
            if ops:
                session.commit(ops, deadline_s)

        if all(isinstance(op, Check) for op in ops):
            self._asked(commit)
        else:
            self._sent_once(commit, ops)

    def watch(self) -> AbstractContextManager[Watch]:
        if not isinstance(self.timing.clock, SystemClock):
            return super().watch()  # a clock that a test drives goes on only if it is waited for
        return nullcontext(_Watch(self._asked))

    def sync(self) -> None:
        self._asked(lambda session, deadline_s: session.sync(deadline_s))

    def close(self) -> None:
        self._link.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (self.address.url, self.timing)

    def _asked(self, ask: Callable[[Session, float], T]) -> T:
        """The answer to a request that changes nothing; it is sent again on another session while there is time."""
        deadline_s = self._link.deadline_s()
        reason: object = ""
        while True:
            session = self._link.session(deadline_s)
            try:
                return ask(session, deadline_s)
            except NoAnswerError as problem:
                session.abandon()
                reason = problem
            if self._link.is_past(deadline_s):
                raise self._link.unavailable(reason)

    def _sent_once(self, commit: Callable[[Session, float], None], ops: Sequence[Op]) -> None:
        deadline_s = self._link.deadline_s()
        session = self._link.session(deadline_s)
        try:
            commit(session, deadline_s)
        except NoAnswerError as problem:
            session.abandon()
            raise OutcomeUnknownError(
                "the connection to ZooKeeper broke before the answer to a write: run the same step again. If it fails "
                "every time, the servers' jute.maxbuffer is below its default of 1 MiB",
                zookeeper=str(self.address),
                reason=str(problem),
                operations=len(ops),
                size_bytes=sum(map(size_of, ops)),
            ) from None


class _Watch:
    """`ports.Watch` by ZooKeeper's watches.

    A request is answered from a state that has everything up to the zxid of any earlier answer on its session, or on
    one before. So a znode that is read after a call, and has no higher mzxid than what the call had seen, is read as it
    is then.

    Args:
        ask: calls its argument with a session and a deadline.
    """

    def __init__(self, ask: Callable[[Callable[[Session, float], int]], int]) -> None:
        self._ask = ask
        self._seen_zxid: int | None = None

    def wait(self, paths: Iterable[str], timeout_ms: int) -> None:
        wanted, since_zxid = list(paths), self._seen_zxid

        def wait(session: Session, deadline_s: float) -> int:
            if since_zxid is not None:
                session.await_change(wanted, since_zxid, timeout_ms / 1000, deadline_s)
            return session.seen_zxid

        self._seen_zxid = self._ask(wait)


def _reopened(url: str, timing: Timing) -> ZookeeperZnodeStore:
    """A store that connects at the first use, and creates no chroot. Called by pickle."""
    return ZookeeperZnodeStore(url, create=False, now_ms=timing.now_ms, clock=timing.clock, jitter=timing.jitter)
