"""What the ledgers of a query say, multi by multi, and what must be true at each of these moments and of each piece.

One decision     a run decides a batch in all of its ledgers by one multi, or in none
Order            each ledger decides one batch after the other, once, when the one before is visible
Final            what is decided stays decided, with the pieces that it names
Nothing early    a piece is shown when its batch is decided, and all batches before are visible
Nothing lost     a round is over, or forgotten, when its pieces are visible; what is decided is never discarded
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, NoReturn

from oncelog.batches.committables import CommittableRound
from oncelog.batches.fingerprint import fingerprint
from oncelog.batches.ledger import RoundRecord
from oncelog.ports import Create, Delete, Op, Set
from oncelog.types import Outcome
from simulation.errors import LawBrokenError
from simulation.targets.destinations import Destination
from simulation.targets.places import SharedPlace
from simulation.world import World


class Decided(NamedTuple):
    """A decided batch: its number in the source, and its record when it was decided."""

    batch: int
    record: RoundRecord


@dataclass(slots=True)
class Ledger:
    """One ledger.

    Attributes:
        target: that its batches go to.
        since: the first batch of the source that the target gets.
        rounds: the newest record of each round, by its znode's path.
        decided: in order.
        folder: of its rounds' znodes.
    """

    target: Destination
    since: int = 0
    rounds: dict[str, RoundRecord] = field(default_factory=dict)
    decided: list[Decided] = field(default_factory=list)
    folder: str = field(init=False)

    def __post_init__(self) -> None:
        self.folder = f"{self.target.kind.rounds_path(self.target.prefix)}/"

    @property
    def name(self) -> str:
        """Of its target."""
        return self.target.name

    @property
    def next_batch(self) -> int:
        """The first batch that is not decided."""
        return self.decided[-1].batch + 1 if self.decided else self.since

    def not_over(self) -> Iterator[tuple[str, RoundRecord]]:
        """The rounds that are open, or whose outcome was not carried out."""
        return ((path, record) for path, record in self.rounds.items() if not self.target.kind.is_carried_out(record))


class Books:
    """Every decision of one query.

    Attributes:
        ledgers: by the name of their target.
        broken: the laws that were broken; a run must end with none, whoever caught the error.
        on_decision: called with the run that decided a batch.
    """

    def __init__(self, world: World) -> None:
        self.ledgers: dict[str, Ledger] = {}
        self.broken: list[str] = []
        self.on_decision: Callable[[str], None] = lambda run_id: None
        self._batches: dict[str, int] = {}
        self._targets: dict[str, tuple[str, ...]] = {}
        self._look_before = world.on_write
        world.on_write = self.look

    def expect(self, batch: int, offsets: Sequence[tuple[str | None, ...]]) -> None:
        """This batch of the source has these start and end offsets."""
        self._batches[fingerprint(*offsets)] = batch

    def begin(self, run_id: str, targets: Sequence[str]) -> None:
        """A run begins, which writes to these targets."""
        self._targets[run_id] = tuple(targets)

    def break_law(self, what: str) -> NoReturn:
        """End the run.

        Raises:
            LawBrokenError: always.
        """
        self.broken.append(what)
        raise LawBrokenError(what)

    # Znodes

    def look(self, ops: Sequence[Op]) -> None:
        """A multi was carried out.

        Raises:
            LawBrokenError: a law is broken.
        """
        self._look_before(ops)
        decided: dict[str, dict[str, int]] = {}
        for ledger, op in self._rounds_of(ops):
            if isinstance(op, Delete):
                self._forget(ledger, op.path)
            elif (found := self._note(ledger, op)) is not None:
                decided.setdefault(found.record.run_id or "", {})[ledger.name] = found.batch
        for run_id, batches in decided.items():
            self._judge_decision(run_id, batches)
            self.on_decision(run_id)

    def _rounds_of(self, ops: Sequence[Op]) -> Iterator[tuple[Ledger, Create | Set | Delete]]:
        for op in ops:
            for ledger in self.ledgers.values():
                if isinstance(op, (Create, Set, Delete)) and op.path.startswith(ledger.folder):
                    yield ledger, op

    def _note(self, ledger: Ledger, op: Create | Set) -> Decided | None:
        """Note a round's record; returns it if it was decided now."""
        before, record = ledger.rounds.get(op.path), ledger.target.kind.decode(op.path, op.data)
        ledger.rounds[op.path] = record
        if before is not None and before.outcome is not Outcome.OPEN:
            if before.outcome is not record.outcome or _named(before) != _named(record):
                self.break_law(f"{ledger.name}: {op.path} was {before}, and is {record}")
            self._judge_end(ledger, record)
            return None
        if record.outcome is not Outcome.COMMIT:
            return None
        if ledger.decided and not ledger.target.shows(ledger.decided[-1].record):
            self.break_law(f"{ledger.name}: a batch is decided, and the one before is not visible")
        found = Decided(self._batches[record.fingerprint or ""], record)
        if found.batch != ledger.next_batch:
            self.break_law(f"{ledger.name}: batch {found.batch} is decided instead of {ledger.next_batch}")
        ledger.decided.append(found)
        return found

    def _judge_end(self, ledger: Ledger, record: RoundRecord) -> None:
        if (
            record.outcome is Outcome.COMMIT
            and ledger.target.kind.is_carried_out(record)
            and not ledger.target.shows(record)
        ):
            self.break_law(f"{ledger.name}: a round is over, and its batch is not visible")

    def _forget(self, ledger: Ledger, path: str) -> None:
        record = ledger.rounds.pop(path)
        if not ledger.target.kind.is_carried_out(record) or not ledger.target.shows(record):
            self.break_law(f"{ledger.name}: a round is forgotten that is not over: {record}")

    def _judge_decision(self, run_id: str, batches: Mapping[str, int]) -> None:
        (batch, *others) = sorted(set(batches.values()))
        lacking = {name for name in self._targets[run_id] if self.ledgers[name].next_batch <= batch}
        if others or lacking:
            self.break_law(f"{run_id} decides {dict(batches)} and leaves {sorted(lacking)} behind")

    def judge_done(self, run_id: str, batch: int) -> None:
        """A run was told that a batch is done.

        Raises:
            LawBrokenError: it is not visible in one of the run's targets.
        """
        for name in self._targets[run_id]:
            ledger = self.ledgers[name]
            records = [decided.record for decided in ledger.decided if decided.batch == batch]
            if batch >= ledger.since and not (records and ledger.target.shows(records[0])):
                self.break_law(f"{name}: batch {batch} is done, and it is not visible")

    def judge_undone(self, run_id: str) -> None:
        """A run's batch has failed before its decision, and nothing was in the way of undoing it.

        Raises:
            LawBrokenError: a round of it is open.
        """
        for ledger in self.ledgers.values():
            for path, record in ledger.rounds.items():
                if record.run_id == run_id and record.outcome is Outcome.OPEN:
                    self.break_law(f"{ledger.name}: {path} is open, and its batch has failed")

    # Pieces

    def showing(self, place: SharedPlace, attempt: str, pieces: Sequence[str]) -> None:
        """Pieces are about to become visible.

        Raises:
            LawBrokenError: they may not.
        """
        for ledger in (one for one in self.ledgers.values() if one.target.place is place):
            for number, decided in enumerate(ledger.decided):
                record = decided.record
                if record.nonce != attempt:
                    continue
                if not set(pieces) <= set(_named(record)):
                    self.break_law(f"{place.name}: {attempt}: other pieces are shown than the record names")
                if not all(ledger.target.shows(earlier.record) for earlier in ledger.decided[:number]):
                    self.break_law(f"{place.name}: batch {decided.batch} is shown before the one before it")
                return
        self.break_law(f"{place.name}: {attempt} is shown, and it is not decided")

    def discarding(self, place: SharedPlace, attempt: str) -> None:
        """An attempt is about to be discarded.

        Raises:
            LawBrokenError: it is not aborted.
        """
        for ledger in (one for one in self.ledgers.values() if one.target.place is place):
            for record in ledger.rounds.values():
                if record.nonce == attempt and record.outcome is not Outcome.ABORT:
                    self.break_law(f"{place.name}: {attempt} is discarded, and it is not aborted but {record.outcome}")


def _named(record: RoundRecord) -> tuple[str, ...]:
    return record.names if isinstance(record, CommittableRound) else ()
