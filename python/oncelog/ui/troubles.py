"""What is stuck, for how long, what is blocking it, and the command that fixes it. Nothing here runs a command."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from oncelog.metrics import catalogue as c
from oncelog.metrics.alerts import HELD_SECONDS, INVISIBLE_SECONDS, UNDECIDED_SECONDS, UPKEEP_SECONDS
from oncelog.metrics.catalogue import Metric
from oncelog.metrics.reading import NO_LABELS, Holder, Labels, Reading


@dataclass(frozen=True, slots=True)
class Trouble:
    """One thing that is stuck.

    Attributes:
        what: in a sentence.
        who: holds it, if anybody.
        age_seconds: how long; None if nobody knows.
        command: fixes it, or shows what to find out first. It is only shown, never run.
    """

    what: str
    who: str
    age_seconds: float | None
    command: str


@dataclass(frozen=True, slots=True)
class Commands:
    """Writes commands that can be pasted into a shell.

    Args:
        place: the options that name what is watched, such as ``("--path", "/data/log")``.
        group: the command group of what is watched, if it has one: ``kafka``.
    """

    place: Sequence[str]
    group: Sequence[str] = ()

    def __call__(self, command: str, *names: str, **options: str) -> str:
        """The command on these names, with these options, or none if a terminal would not show a name as it is."""
        given = [f"--{name}={value}" for name, value in options.items()]
        words = ["oncelog", *self.group, *command.split(), *self.place, *given]
        if not all(name.isprintable() for name in (*names, *given)):
            return ""
        return shlex.join([*words, "--", *names] if names else words)


def find_troubles(reading: Reading, commands: Commands) -> list[Trouble]:
    """All troubles, the oldest first."""
    found = [*_holders(reading, commands), *_ledgers(reading, commands), *_groups(reading, commands)]
    age = _values(reading, c.GENERATION_AGE).get(NO_LABELS, 0)
    if age > UPKEEP_SECONDS:
        found.append(Trouble("oncelog gc does not run, or a writer blocks it", "", age, commands("gc")))
    return sorted(found, key=lambda one: -(one.age_seconds or 0))


def _holders(reading: Reading, commands: Commands) -> Iterator[Trouble]:
    for one in reading.holders:
        if one.state == "decided" or (one.state not in _AT_ONCE and one.age_seconds <= HELD_SECONDS):
            continue
        yield Trouble(_holding(one), label(one), one.age_seconds, _fix(one, commands))


_AT_ONCE: Final = frozenset({"overdue", "hanging"})
"""States that are a trouble at any age."""


def _holding(one: Holder) -> str:
    held = ", ".join((*one.partitions[:3], *(f"group {group}" for group in one.groups[:3])))
    more = max(len(one.partitions) - 3, 0) + max(len(one.groups) - 3, 0)
    held = f"{held} and {more} more" if more else held
    match one.state:
        case "hanging":
            return f"nobody ends it: {one.why}; holds back readers of {held}"
        case "overdue":
            return f"open beyond its time-out; holds back readers of {held}"
        case "prepared":
            return f"prepared, so it never times out: find who holds its token; holds back readers of {held}"
        case _:
            return f"open for long; holds back readers of {held}"


def _fix(one: Holder, commands: Commands) -> str:
    """Suggest an abort only after the timeout. Before that, the owner may still be working."""
    is_overdue = one.state == "overdue"
    if one.kind == "round":
        return commands("batch abort" if is_overdue else "batch show", one.name)
    if one.state == "hanging":
        return _repair(one, commands)
    if not is_overdue:
        fix = commands("txn describe", one.name)
    elif one.abort is not None:
        fix = commands("txn abort", **dict([one.abort]))
    else:
        fix = commands("txn abort", one.name)
    return fix or commands("txn find-hanging")


def _repair(one: Holder, commands: Commands) -> str:
    """Write the missing marker if it is known how the transaction ended. Otherwise an operator must choose."""
    match one.fate:
        case "committed" | "aborted":
            return commands("txn repair", partition=one.partitions[0])
        case "unknown":
            return commands("txn repair --dry-run", partition=one.partitions[0])
        case _:
            return commands("txn find-hanging")


def _ledgers(reading: Reading, commands: Commands) -> Iterator[Trouble]:
    overdue = {one.name for one in reading.holders if one.kind == "round" and one.state != "decided"}
    for (target, prefix), age in _values(reading, c.BATCH_UNDECIDED).items():
        if age > UNDECIDED_SECONDS and not (target == "log" and prefix in overdue):
            what = f"batch into {target} is not decided: is its query alive?"
            yield Trouble(what, prefix, age, commands("batch show", prefix))
    for (target, prefix), age in _values(reading, c.BATCH_INVISIBLE).items():
        if age > INVISIBLE_SECONDS:
            what = f"batch into {target} is decided and not visible: start its query, or complete it"
            yield Trouble(what, prefix, age, _complete(target, prefix, commands))


def _complete(target: str, prefix: str, commands: Commands) -> str:
    """A log's batches are completed by upkeep, and Kafka's by their query, whose ledger says how it stands."""
    if target == "log":
        return commands("gc")
    if target == "kafka" or "--znodes" not in commands.place:
        return commands("batch show", prefix)
    return commands(f"batch complete --target {target}", prefix)


def _groups(reading: Reading, commands: Commands) -> Iterator[Trouble]:
    for (group,), count in _values(reading, c.GROUP_BEYOND).items():
        if count:
            what = f"group has read further than the log goes, in {count:.0f} partitions: an older copy of the log?"
            yield Trouble(what, group, None, commands("group describe", group))


def label(one: Holder) -> str:
    """How the page names a holder. A producer may hang in several partitions, in each with another transaction."""
    if one.state == "hanging":
        return f"{one.name} in {one.partitions[0]}"
    return one.name if one.number is None else f"{one.name} (round {one.number})"


def _values(reading: Reading, metric: Metric) -> dict[Labels, float]:
    return dict(reading.values.get(metric, {}))
