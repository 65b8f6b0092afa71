"""A command log in a simulated bucket: the objects, which all processes share, and the product's log on them.

The bucket does what S3 may do. A put whose answer was lost was made, or not, or is made seconds later, when the place
may be free again. It asks to be asked again. A listing leaves out what is put meanwhile, and shows what is put later.
Others act between any two objects that are fetched together, and between what a request does and its answer.

Its own clock never jumps, and tells whole seconds. Processes know it by the answers; while one stands still, the clock
by which it counts on may stand still, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from oncelog.znodes.replicated import objects
from oncelog.znodes.replicated.objects import Listed, NoAnswerError, ObjectLog
from oncelog.znodes.replicated.port import BEGINNING, Entry
from oncelog.znodes.transact import IsFresh
from oncelog.znodes.tree import Tree
from simulation.command_log import JudgedStore, SharedLog
from simulation.errors import LawBrokenError
from simulation.faults import Fault, Operation

if TYPE_CHECKING:
    from oncelog.ports import Op
    from simulation.processes import Process
    from simulation.world import World

APART = 0.15
"""The probability that others act between two objects, between two pages of a listing, or before an answer."""

STOOD_STILL_MS = 400
"""An operation that takes longer was one of a process that stood still."""

KEPT = 256
"""How many of the last states of the znodes are kept, to compare snapshots with them."""

_UNDONE = (Fault.LOST_REQUEST, Fault.DELAYED_REQUEST, Fault.UNAVAILABLE, Fault.CONFLICT)
_UNANSWERED = (*_UNDONE, Fault.LOST_REPLY)


class SharedBucket(SharedLog):
    """The objects, and what the entries among them come to.

    Attributes:
        objects: data and time of each, by name.
    """

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.objects: dict[str, tuple[bytes, int]] = {}
        self._last = BEGINNING
        self._states: dict[int, dict[str, object]] = {}

    def opened_by(self, process: Process) -> JudgedStore:
        return JudgedStore(process, self, BucketLog(process, self), recent_ms=objects.LOOK_MS)

    def now_ms(self) -> int:
        """The bucket's time, as an answer has it."""
        return self._world.scheduler.now_ms // 1000 * 1000

    def put_new(self, name: str, data: bytes) -> bool:
        """Create an object; False if it exists."""
        if name in self.objects:
            return False
        self.objects[name] = data, self.now_ms()
        folder, _, number = name.partition("/")
        if folder == objects.FLOORS:
            self.trim(int(number))
        else:
            self._take(int(number), data)
        return True

    def put_later(self, name: str, data: bytes) -> None:
        """Let a put arrive some time later."""

        def arrive() -> None:
            self.put_new(name, data)

        self._world.deliver_later(f"put {name}", arrive)

    def remove(self, name: str) -> None:
        """Remove an object."""
        self.objects.pop(name, None)

    def read(self, after: int) -> Sequence[Entry]:
        numbered = [(name.partition("/"), data) for name, (data, _) in sorted(self.objects.items())]
        found = [objects.entry_of(int(name), data) for (of, _, name), data in numbered if of == objects.ENTRIES]
        return [entry for entry in found if entry.position > after]

    def damage(self, change: Callable[[list[Entry]], list[Entry]]) -> None:
        """Lose or change entries, as a lifecycle rule does, or a store that lets two writers win."""
        found = list(self.read(BEGINNING))
        for entry in found:
            self.remove(objects.entry_name(entry.position))
        for entry in change(found):
            self.objects[objects.entry_name(entry.position)] = objects.data_of(entry), self.now_ms()
        self._is_damaged = True

    def compare(self, tree: Tree, since: int) -> None:
        """A snapshot shows the znodes of one moment, not before zxid `since`.

        Raises:
            LawBrokenError: it does not.
        """
        if self._is_damaged:
            return
        expected = self._states.get(tree.zxid, {} if not tree.zxid else None)
        if not since <= tree.zxid <= self.store.zxid:
            raise LawBrokenError(f"a snapshot is of {tree.zxid}, and not of {since} to {self.store.zxid}")
        if expected is not None and expected != {path: znode for path, znode in tree.znodes.items() if path != "/"}:
            raise LawBrokenError(f"a snapshot shows other znodes than the log had at {tree.zxid}")

    def _take(self, position: int, data: bytes) -> None:
        if self._is_damaged:
            return
        if position <= self._last:
            if position > self.start:
                raise LawBrokenError(f"the entry {position} was removed, and the log is trimmed up to {self.start}")
            self._world.counts["zombies' entries"] += 1  # nobody may read them, nor take them for appended
            return
        if position > self._last + 1:
            raise LawBrokenError(f"the entry {position} was put behind {self._last}")
        self._last = position
        self._apply(objects.entry_of(position, data))
        self._states[self.store.zxid] = {path: znode for path, znode in self.store.znodes.items() if path != "/"}
        if len(self._states) > KEPT:
            del self._states[next(iter(self._states))]


class BucketLog(ObjectLog):
    """The product's log in the bucket, as one process has it."""

    def __init__(self, process: Process, shared: SharedBucket) -> None:
        super().__init__(ProcessBucket(process, shared), process)

    def is_still_fresh(self, ops: Sequence[Op], is_fresh: IsFresh) -> bool:
        """What comes between this question and the write is up to the product."""
        return is_fresh()


class ProcessBucket:
    """`objects.Bucket` of one process."""

    def __init__(self, process: Process, shared: SharedBucket) -> None:
        self._process = process
        self._shared = shared
        self._stood_ms = 0
        """How long the process's own clock stood still."""
        self._ahead_ms = shared.now_ms() - self._own_ms()

    def get(self, names: Sequence[str]) -> Sequence[bytes | None]:
        self._ask(Operation.ZNODE_READ, f"get {', '.join(names[:3])}")
        found = []
        for name in names:
            found.append(self._shared.objects.get(name, (None, 0))[0])
            self._let_others_act()
        self._answered()
        return found

    def put_new(self, name: str, data: bytes) -> bool:
        fault = self._ask(Operation.ZNODE_WRITE, f"put {name}")
        if fault in (Fault.DELAYED_REQUEST, Fault.REPEATED_REQUEST):
            self._shared.put_later(name, data)
        is_new = fault not in _UNDONE and self._shared.put_new(name, data)
        if fault is Fault.CRASH_AFTER:
            self._process.die_after()
        self._answered(fault)
        return is_new

    def names(self, folder: str, after: str = "") -> Iterator[Listed]:
        self._ask(Operation.ZNODE_READ, f"list {folder} after {after}")
        first = self._listed(folder, after)
        middle = first[self._process.world.chance.randrange(len(first))].name if first else ""
        self._let_others_act()
        second = self._listed(folder, after)
        self._answered()
        return iter([one for one in first if one.name <= middle] + [one for one in second if one.name > middle])

    def delete(self, names: Sequence[str]) -> None:
        fault = self._ask(Operation.ZNODE_WRITE, f"delete {', '.join(names[:3])}")
        for name in names:
            if fault not in _UNDONE:
                self._shared.remove(name)
                self._let_others_act()
        if fault is Fault.CRASH_AFTER:
            self._process.die_after()
        self._answered(fault)

    def now_ms(self) -> int:
        return self._own_ms() + self._ahead_ms

    def close(self) -> None: ...

    def _listed(self, folder: str, after: str) -> list[Listed]:
        found = [(name.partition("/"), time_ms) for name, (_, time_ms) in sorted(self._shared.objects.items())]
        return [Listed(name, time_ms) for (of, _, name), time_ms in found if of == folder and name > after]

    def _ask(self, operation: Operation, what: str) -> Fault | None:
        began_ms = self._process.monotonic_ms()
        fault = self._process.ask(operation, what)
        took_ms = self._process.monotonic_ms() - began_ms
        if took_ms > STOOD_STILL_MS and self._process.world.chance.random() < 0.5:
            self._stood_ms += took_ms
        if fault is Fault.UNAVAILABLE:
            raise NoAnswerError("slow down")
        return fault

    def _answered(self, fault: Fault | None = None) -> None:
        """Take an answer: a while after it was given, if the process stood still meanwhile."""
        if fault in _UNANSWERED:
            raise NoAnswerError("no answer")
        told_ms = self._shared.now_ms()
        self._let_others_act()
        self._ahead_ms = max(self._ahead_ms, told_ms - self._own_ms())

    def _let_others_act(self) -> None:
        world = self._process.world
        if world.chance.random() < APART:
            self._process.wait(world.latency_ms())

    def _own_ms(self) -> int:
        return self._process.monotonic_ms() - self._stood_ms
