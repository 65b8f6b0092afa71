"""Where ledgers are, how their znodes read, and the one step that anybody may take: aborting a round that is open.

    <root>/<prefix>                QueryLedger; protocol/batch_ledger.py decides over it
    <root>/<prefix>/rounds/<n>     one attempt to write one batch: a record of the target's own kind

Several kinds may share a store. Everything is in the znodes' data: their times and versions are others in a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from oncelog.arguments import check_name
from oncelog.errors import CorruptDataError, UnknownPrefixError, UsageError
from oncelog.ledger.payloads import decode_ledger, encode_ledger
from oncelog.ports import ZnodeReader, ZnodeStore, ZnodeView
from oncelog.protocol.batch_ledger import QueryLedger
from oncelog.types import Outcome
from oncelog.znodes import paths, payloads
from oncelog.znodes.payloads import OwnerRecord
from oncelog.znodes.transact import resolving
from oncelog.znodes.walking import paths_below


class RoundRecord(Protocol):
    """What the record of a round says for every target. It is a frozen dataclass, with more of its own.

    Attributes:
        batch_id, fingerprint, run_id: of the batch, as it was asked for.
        nonce: of the attempt that made the round; whoever finds its own knows that its step took place.
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


@dataclass(frozen=True)
class LedgerKind(Generic[R]):
    """The ledgers of one kind of target.

    Attributes:
        root: the parent of all of them.
        encode, decode: a round's record as its znode holds it; `decode` takes the path for its errors.
        announced_at: a znode that every outcome of a round sets, for readers who wait for outcomes; None for none.
    """

    root: str
    encode: Callable[[R], bytes]
    decode: Callable[[str, bytes], R]
    announced_at: str | None = None

    def path(self, prefix: str) -> str:
        """The ledger of a prefix."""
        return paths.named(self.root, prefix)

    def rounds_path(self, prefix: str) -> str:
        """The parent of its rounds."""
        return paths.rounds_of(self.path(prefix))

    def round_path(self, prefix: str, number: int) -> str:
        """One of its rounds."""
        return f"{self.rounds_path(prefix)}/{number}"

    # Reading

    def prefixes(self, reader: ZnodeReader) -> list[str]:
        """All prefixes that have a ledger of this kind, sorted."""
        return sorted(paths.name_at(path) for path in paths_below(reader, self.root))

    def read(self, reader: ZnodeReader, prefix: str) -> QueryLedger | None:
        """What the ledger says of a prefix; None before its first batch."""
        path = self.path(prefix)
        znode = reader.get(path)
        return None if znode is None else decode_ledger(path, znode.data)

    def require(self, reader: ZnodeReader, prefix: str) -> QueryLedger:
        """What the ledger says of a prefix.

        Raises:
            UnknownPrefixError: nothing.
            UsageError: it is no prefix that a sink can have, and none has it: an older oncelog took longer ones.
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
        """What a round's znode says; None when it is over and forgotten."""
        path = self.round_path(prefix, number)
        znode = reader.get(path)
        return None if znode is None else self.decode(path, znode.data)

    def round_numbers(self, reader: ZnodeReader, prefix: str) -> list[int]:
        """The rounds of a prefix that are remembered, oldest first."""
        return sorted(self._number(prefix, name) for name in reader.children(self.rounds_path(prefix)))

    def read_rounds(self, reader: ZnodeReader, prefix: str) -> dict[int, R]:
        """What is remembered of the rounds of a prefix, oldest first."""
        found = reader.children_data(self.rounds_path(prefix))
        stored = {self._number(prefix, name): znode.data for name, znode in found}
        return {number: self.decode(self.round_path(prefix, number), data) for number, data in sorted(stored.items())}

    def _number(self, prefix: str, name: str) -> int:
        if not paths.is_number(name):
            raise CorruptDataError("not the path of a round", path=f"{self.rounds_path(prefix)}/{name}")
        return int(name)

    def newest_rounds(self, reader: ZnodeReader) -> Iterator[str]:
        """The path of each prefix's newest round: no other one can be open. It may be forgotten already."""
        for prefix in self.prefixes(reader):
            found = self.read(reader, prefix)
            if found is not None:
                yield self.round_path(prefix, found.current_round)

    def is_remembered(self, reader: ZnodeReader, prefix: str, number: int) -> bool:
        """Whether the ledger still needs a round: it is the newest, or that of the last decided batch."""
        found = self.read(reader, prefix)
        return found is not None and number in {found.current_round, found.last.round if found.last else None}

    def znodes(self, reader: ZnodeReader) -> Iterator[tuple[str, Callable[[str, bytes], object]]]:
        """Every znode of every ledger, and what reads it: for who looks for damage."""
        for path in paths_below(reader, self.root):
            yield path, decode_ledger
            yield from ((found, self.decode) for found in paths_below(reader, paths.rounds_of(path)))

    # Within a step

    def put(self, view: ZnodeView, prefix: str, ledger: QueryLedger, *, is_new: bool = False) -> None:
        """Store the ledger of a prefix."""
        (view.create if is_new else view.set)(self.path(prefix), encode_ledger(ledger))

    def put_round(self, view: ZnodeView, prefix: str, number: int, record: R) -> None:
        """Store a round that is there already."""
        view.set(self.round_path(prefix, number), self.encode(record))

    def conclude(self, view: ZnodeView, prefix: str, number: int, record: R, outcome: Outcome) -> R:
        """Store the outcome of a round, and announce it."""
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
        """Abort a round, whoever's it is, if it is still open; returns whether it is aborted now, for good."""

        def step(view: ZnodeView) -> bool:
            if self.abort_in(view, prefix, number):
                return True
            record = self.read_round(view, prefix, number)
            return record is not None and record.outcome is Outcome.ABORT

        return resolving(lambda: store.transact(step))


EMBEDDED: LedgerKind[OwnerRecord] = LedgerKind(
    paths.QUERIES, payloads.encode_owner, payloads.decode_owner, announced_at=paths.COMMITS
)
"""Of the embedded log, whose rounds are owners of data: what a round decides is visible at once."""

PLUGGED_IN = "oncelog.ledgers"
"""Entry points of this group are the ledger kinds of other packages."""


def all_kinds() -> list[LedgerKind[Any]]:
    """Every kind of ledger that a store may hold, as far as its package is installed."""
    return [EMBEDDED, *(found.load() for found in entry_points(group=PLUGGED_IN))]
