"""One connection to PostgreSQL. No other module of this package may use psycopg.

Statements go out together and their answers are read together: one round trip. Nothing is prepared on the server, and
no setting outlives a transaction, so a pooler in transaction mode may stand in between.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, LiteralString, NamedTuple, TypeVar, cast

from oncelog.errors import IllegalStateTransitionError, OncelogError
from oncelog.extras import extras
from oncelog.znodes.postgres.address import PostgresAddress
from oncelog.znodes.postgres.failures import LostError, NotNowError, refused, translated

with extras("postgres", part="oncelog.znodes.postgres"):
    import psycopg
    from psycopg.abc import PQGen
    from psycopg.pq import TransactionStatus

T = TypeVar("T")

Row = tuple[Any, ...]


class Statement(NamedTuple):
    sql: LiteralString
    parameters: Sequence[Any] = ()


ROLLBACK: Final = Statement("ROLLBACK")

_inherited: list[psycopg.Connection[Any]] = []
"""Those of the parent, in a forked child. They are kept, so that no finalizer touches them."""


class Impatient(psycopg.Connection[Row]):
    """A connection whose every wait ends at its deadline.

    Attributes:
        deadline_s: by `time.monotonic`.
        is_late: whether one has ended so.
    """

    deadline_s = math.inf
    is_late = False

    def gives_up(self) -> bool:
        """Whether to end a wait at the deadline. One that goes on sets another deadline."""
        return True

    def wait(self, gen: PQGen[T], *arguments: Any, **named: Any) -> T:
        return super().wait(self._until_deadline(gen), *arguments, **named)

    def _until_deadline(self, gen: PQGen[T]) -> PQGen[T]:
        """What `gen` waits for and returns. psycopg looks in several times a second, also when nothing is ready."""
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and time.monotonic() >= self.deadline_s and self.gives_up():
                    self.is_late = True
                    raise psycopg.OperationalError
                wanted = gen.send(ready)
        except StopIteration as end:
            return cast(T, end.value)


class StoreConnection:
    """A connection for one thread at a time.

    Args:
        deadline_s: when to give up, by `time.monotonic`.

    Raises:
        LostError: no server answered, or none of them takes writes now.
        StoreAccessError: they deny this process access.
    """

    def __init__(self, address: PostgresAddress, deadline_s: float) -> None:
        self._address = address
        self._pid = os.getpid()
        self.is_broken = False
        """Whether it failed in any way: it is not used again."""
        try:
            self._psycopg = Impatient.connect(
                **address.parameters(deadline_s - time.monotonic()),
                autocommit=True,
                cursor_factory=psycopg.ClientCursor,
            )
        except psycopg.Error as error:
            raise refused(str(error), postgresql=str(address)) from None
        self._psycopg.deadline_s = deadline_s

    @property
    def is_inherited(self) -> bool:
        """Whether it belongs to the process that this one was forked from."""
        return self._pid != os.getpid()

    @property
    def is_in_transaction(self) -> bool:
        return self._psycopg.info.transaction_status is not TransactionStatus.IDLE

    def wait_until(self, deadline_s: float) -> None:
        """Give up any later request at this time."""
        self._psycopg.deadline_s = deadline_s

    def ask(self, *statements: Statement) -> list[list[Row]]:
        """Run statements in their order, in one round trip; returns the rows of each.

        Raises:
            NotNowError: ask again on another connection.
            LostError: the same. If a COMMIT is among the statements, it may have happened.
            StoreUnavailableError, StoreAccessError, CorruptDataError: see failures.py.
        """
        if self.is_inherited:
            raise IllegalStateTransitionError("this snapshot of the znode store belongs to the parent process")
        try:
            return self._asked(statements)
        except psycopg.Error as error:
            self.is_broken = True
            if self._psycopg.is_late:
                raise LostError("no answer within the time-out") from None
            sqlstate = None if self._psycopg.closed else error.sqlstate
            reason = error.diag.message_primary or str(error)
            raise translated(sqlstate, reason, postgresql=str(self._address)) from None
        except BaseException:  # a signal: answers may be left to be read
            self.is_broken = True
            raise

    def _asked(self, statements: Sequence[Statement]) -> list[list[Row]]:
        # In one message of the simple protocol. psycopg's pipelines end with a message that makes the server forget
        # its timeout of idle transactions, so a suspended process would keep its lock.
        parameters = [parameter for statement in statements for parameter in statement.parameters]
        cursor = self._psycopg.execute("; ".join(statement.sql for statement in statements), parameters)
        answers = []
        while True:
            answers.append(cursor.fetchall() if cursor.description else [])
            if not cursor.nextset():
                return answers

    def rollback(self) -> None:
        """End the transaction, if there is one, without writing. Where that fails, the connection is broken."""
        if not (self.is_inherited or self.is_broken) and self.is_in_transaction:
            with suppress(NotNowError, OncelogError):
                self.ask(ROLLBACK)

    def close(self) -> None:
        if self.is_inherited:
            _inherited.append(self._psycopg)
        else:
            self._psycopg.close()

    def __del__(self) -> None:
        """Close the connection of a store that is dropped; psycopg would warn of it."""
        if hasattr(self, "_psycopg"):
            self.close()
