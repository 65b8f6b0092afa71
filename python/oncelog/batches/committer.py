"""What a connector implements for its store: stage rows that nobody sees yet, and commit them later.

    stage      the rows are durable, and no reader sees them
    validate   the store may still refuse them
               the ledger decides the batch
    commit     the rows become visible; this driver does it, or any later one

Pass a `Committer` to `CommitterTarget` (committables.py), which handles rounds, recovery and clean-up. Assumption:
nothing removes what `stage` returned until it is committed or discarded. Hence any driver can complete a decided batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Self, TypeVar

from oncelog.errors import CorruptDataError
from oncelog.types import Outcome

J = TypeVar("J")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Committable:
    """What a job staged.

    Attributes:
        parts: what the ledger keeps of it, enough for any process to commit it. All parts must fit into one znode.
        rows: number of staged rows.
        participants: number of staged files or transactions, for the report; by default the number of parts.
    """

    parts: tuple[str, ...]
    rows: int
    participants: int | None = None


class Committer(ABC, Generic[J]):
    """Stages and commits the rows of one attempt at a batch, and commits what it finds decided and not visible.

    Two drivers may do so at the same time; the ledger accepts only one of them. It is closed when the attempt is over.
    """

    @abstractmethod
    def stage(self, job: J, attempt: str) -> Committable:
        """Run the job. What it writes is durable when this returns, and invisible. No two attempts have the same id."""

    def validate(self, staged: Committable) -> None:
        """Raise an error if the store cannot commit this; nothing was decided yet."""

    @abstractmethod
    def commit(self, parts: Sequence[str]) -> None:
        """Make the rows of a decided batch visible; do nothing if they are. Any process may call it, at any time."""

    @abstractmethod
    def discard(self, attempt: str) -> None:
        """Remove what an attempt staged and nobody decided; do nothing if nothing is left."""

    def close(self) -> None:
        """Release what was opened, such as a connection."""

    # For stores that keep a record of batches

    def list_staged(self) -> Sequence[str]:
        """The attempts of this prefix that have left something; empty if the store cannot tell."""
        return ()

    def clean_up(self, attempts: Mapping[str, Outcome]) -> None:
        """Remove what no later batch needs; called after each batch, with the attempts that the ledger knows.

        Tasks of dead drivers may have written for aborted attempts after `discard`.
        """

    def has_history(self) -> bool:
        """Whether the store itself shows that the ledger should know this query; False if it keeps no record.

        Called for every batch whose ledger is empty: Spark may not have recorded the query's first batch.
        """
        return False

    def mark_history(self) -> None:
        """Record this query in the store, for `has_history`; called before a decided batch becomes visible."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def parse_parts(parts: Sequence[str], parse: Callable[[Sequence[str]], T]) -> T:
    """What the parts of a decided batch mean to their committer.

    Raises:
        CorruptDataError: they cannot be parsed.
    """
    try:
        return parse(parts)
    except (ValueError, TypeError, KeyError, AttributeError) as problem:
        raise CorruptDataError(
            "the ledger does not say of a decided batch what it consists of", names=list(parts[:1])
        ) from problem
