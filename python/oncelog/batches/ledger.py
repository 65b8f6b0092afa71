"""Where ledgers are, how their znodes are read and written, and the one step that anyone may run: abort an open round.

    <root>/<prefix>                QueryLedger; batches/rules.py has its rules
    <root>/<prefix>/rounds/<n>     one attempt to write one batch: a record that the target defines
    <root>/<prefix>/given-up/<n>   what an operator gave up of a decided round (giving_up.py)

Several kinds may share a store. All information is in the znodes' data, since a copy of the store has other times and
versions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import entry_points
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

from oncelog.arguments import check_name
from oncelog.batches.payloads import decode_given_up, decode_ledger, encode_ledger
from oncelog.batches.rules import QueryLedger
from oncelog.errors import CorruptDataError, UnknownPrefixError, UsageError
from oncelog.ports import ZnodeReader, ZnodeStore, ZnodeView
from oncelog.types import Outcome
from oncelog.znodes import paths, payloads
from oncelog.znodes.payloads import OwnerRecord
from oncelog.znodes.transact import resolving
from oncelog.znodes.walking import paths_below


class RoundRecord(Protocol):
    """The common fields of round records. A target's record is a frozen dataclass, and may have more fields.

    Attributes:
        batch_id, fingerprint, run_id: of the requested batch.
        nonce: of the step that created the round. A step that finds its own nonce has succeeded before.
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def outcome(self) -> Outcome: ...
    @property
    def batch_id(self) -> int | None: ...
    @property
    def fingerprint(self) -> str | None: ...
    @property
    def run_id(self) -> str | None: ...
    @property
    def nonce(self) -> str | None: ...


R = TypeVar("R", bound=RoundRecord)


def _is_over_at_once(_: RoundRecord) -> bool:
    return True


def _parts_are_elsewhere(_: RoundRecord) -> Sequence[str]:
    return ()


@dataclass(frozen=True)
class LedgerKind(Generic[R]):
    """The ledgers of one kind of target.

    Attributes:
        root: the parent of all ledgers.
        encode, decode: convert a round's record to and from the data of its znode; `decode` gets the path for errors.
        announced_at: a znode that every decision of a round sets, for readers; None for no such znode.
        is_over: whether the outcome of a round that has one was carried out; by default it is at once.
        parts: what a round consists of, for people.
        completed: the record of a decided round that an operator gives up; None if the target has its own way.
    """

    root: str
    encode: Callable[[R], bytes]
    decode: Callable[[str, bytes], R]
    announced_at: str | None = None
    is_over: Callable[[R], bool] = _is_over_at_once
    parts: Callable[[R], Sequence[str]] = _parts_are_elsewhere
    completed: Callable[[R], R] | None = None

    def path(self, prefix: str) -> str:
        """The path of a prefix's ledger."""
        return paths.named(self.root, prefix)

    def rounds_path(self, prefix: str) -> str:
        """The path of the parent of its rounds."""
        return paths.rounds_of(self.path(prefix))

    def round_path(self, prefix: str, number: int) -> str:
        """The path of one of its rounds."""
        return f"{self.rounds_path(prefix)}/{number}"

    def given_up_folder(self, prefix: str) -> str:
        """The path of the parent of what was given up of its rounds."""
        return paths.given_up_of(self.path(prefix))

    def given_up_path(self, prefix: str, number: int) -> str:
        """The path of what was given up of one of its rounds."""
        return f"{self.given_up_folder(prefix)}/{number}"

    def is_carried_out(self, record: R) -> bool:
        """Whether a round has an outcome, and nothing is left to do for it, as far as its record says."""
        return record.outcome is not Outcome.OPEN and self.is_over(record)

    # Reading

    def prefixes(self, reader: ZnodeReader) -> list[str]:
        """All prefixes that have a ledger of this kind, sorted."""
        return sorted(paths.name_at(path) for path in paths_below(reader, self.root))

    def read(self, reader: ZnodeReader, prefix: str) -> QueryLedger | None:
        """The ledger of a prefix; None before its first batch."""
        path = self.path(prefix)
        znode = reader.get(path)
        return None if znode is None else decode_ledger(path, znode.data)

    def require(self, reader: ZnodeReader, prefix: str) -> QueryLedger:
        """The ledger of a prefix.

        Raises:
            UnknownPrefixError: there is none.
            UsageError: there is none, and no sink can have such a prefix. (An older oncelog allowed longer ones.)
        """
        try:
            check_name("prefix", prefix)
        except UsageError:
            if prefix not in self.prefixes(reader):
                raise
        found = self.read(reader, prefix)
        if found is None:
            raise UnknownPrefixError(
                "no sink has written under this prefix; the prefix is the sink's transactionalIdPrefix (or the "
                "query's id), with .<sinkName> if it has one",
                prefix=prefix,
                known=self.prefixes(reader),
            )
        return found

    def read_round(self, reader: ZnodeReader, prefix: str, number: int) -> R | None:
        """The record of a round; None if it was deleted."""
        path = self.round_path(prefix, number)
        znode = reader.get(path)
        return None if znode is None else self.decode(path, znode.data)

    def round_numbers(self, reader: ZnodeReader, prefix: str) -> list[int]:
        """The numbers of a prefix's rounds that still have a znode, oldest first."""
        return sorted(self._number(prefix, name) for name in reader.children(self.rounds_path(prefix)))

    def read_rounds(self, reader: ZnodeReader, prefix: str) -> dict[int, R]:
        """The records of a prefix's rounds that still have a znode, oldest first."""
        found = reader.children_data(self.rounds_path(prefix))
        stored = {self._number(prefix, name): znode.data for name, znode in found}
        return {number: self.decode(self.round_path(prefix, number), data) for number, data in sorted(stored.items())}

    def _number(self, prefix: str, name: str) -> int:
        if not paths.is_number(name):
            raise CorruptDataError("not the path of a round", path=f"{self.rounds_path(prefix)}/{name}")
        return int(name)

    def newest_rounds(self, reader: ZnodeReader) -> Iterator[str]:
        """The path of each prefix's newest round: no other one can be open. Its znode may have been deleted."""
        for prefix in self.prefixes(reader):
            found = self.read(reader, prefix)
            if found is not None:
                yield self.round_path(prefix, found.current_round)

    def is_remembered(self, reader: ZnodeReader, prefix: str, number: int) -> bool:
        """Whether the ledger still needs a round: it is the newest one, or that of the last decided batch."""
        found = self.read(reader, prefix)
        return found is not None and number in {found.current_round, found.last.round if found.last else None}

    def znodes(self, reader: ZnodeReader) -> Iterator[tuple[str, Callable[[str, bytes], object]]]:
        """All znodes of all ledgers, with their decoders, for verification."""
        for path in paths_below(reader, self.root):
            yield path, decode_ledger
            yield from ((found, self.decode) for found in paths_below(reader, paths.rounds_of(path)))
            yield from ((found, decode_given_up) for found in paths_below(reader, paths.given_up_of(path)))

    # Within a step

    def put(self, view: ZnodeView, prefix: str, ledger: QueryLedger, *, is_new: bool = False) -> None:
        """Store the ledger of a prefix."""
        (view.create if is_new else view.set)(self.path(prefix), encode_ledger(ledger))

    def put_round(self, view: ZnodeView, prefix: str, number: int, record: R) -> None:
        """Store the record of an existing round."""
        view.set(self.round_path(prefix, number), self.encode(record))

    def conclude(self, view: ZnodeView, prefix: str, number: int, record: R, outcome: Outcome) -> R:
        """Store the outcome of a round, and set `announced_at`."""
        concluded = replace(record, outcome=outcome)
        self.put_round(view, prefix, number, concluded)
        if self.announced_at is not None:
            view.set_blind(self.announced_at, b"")
        return concluded

    def abort_in(self, view: ZnodeView, prefix: str, number: int) -> bool:
        """Abort a round in the caller's step if it is still open; returns whether this step did it."""
        record = self.read_round(view, prefix, number)
        if record is None or record.outcome is not Outcome.OPEN:
            return False
        self.conclude(view, prefix, number, record, Outcome.ABORT)
        return True

    # By itself

    def abort(self, store: ZnodeStore, prefix: str, number: int) -> bool:
        """Abort any run's round if it is still open; returns whether it is aborted now."""

        def step(view: ZnodeView) -> bool:
            if self.abort_in(view, prefix, number):
                return True
            record = self.read_round(view, prefix, number)
            return record is not None and record.outcome is Outcome.ABORT

        return resolving(lambda: store.transact(step))


EMBEDDED: LedgerKind[OwnerRecord] = LedgerKind(
    paths.QUERIES, payloads.encode_owner, payloads.decode_owner, announced_at=paths.COMMITS
)
"""The ledgers of the embedded log, whose rounds are owners of data: a round's decision is visible at once."""

PLUGGED_IN = "oncelog.ledgers"
"""Entry points of this group are the ledger kinds of other packages."""


LOG: Final = "log"
"""The name of the kind whose ledgers a log has for itself."""


@cache
def all_kinds() -> Mapping[str, LedgerKind[Any]]:
    """All kinds of ledgers whose packages are installed, by the names of their targets, such as ``postgres``.

    Looking for packages takes some tens of milliseconds, so a process looks once.
    """
    return {LOG: EMBEDDED, **{found.name: found.load() for found in entry_points(group=PLUGGED_IN)}}
