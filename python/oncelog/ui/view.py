"""The tables of the page, as JSON: what is not quiet comes first, and no table has more than some hundred rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final, NamedTuple

from oncelog.metrics import catalogue as c
from oncelog.metrics.catalogue import Metric
from oncelog.metrics.reading import NO_LABELS, Holder, Labels, Reading
from oncelog.ui.tables import ROWS_SHOWN, Row, Table, few, shown
from oncelog.ui.troubles import Commands, Trouble, find_troubles, label
from oncelog.ui.watching import Watcher, batch_states

IN_LOG: Final = ("partition", "start", "stable to", "end", "held by", "held for")
IN_KAFKA: Final = ("partition", "stable to", "high watermark", "held by", "held for")
HELD: Final = ("state", "age", "time-out", "holds")


class Told(NamedTuple):
    """What drivers say of their queries."""

    troubles: Sequence[Trouble]
    table: Table


def view(
    watcher: Watcher, commands: Commands, place: str, wanted: str = "", told: Told | None = None
) -> dict[str, Any]:
    """The page.

    Args:
        place: what is watched, as its heading says.
        wanted: only rows of the tables that have this text, in upper or lower case. Troubles are always shown.
        told: None if no driver is asked.
    """
    reading, events = watcher.reading, list(watcher.history.events)
    page: dict[str, Any] = {
        "place": place,
        "problem": watcher.problem,
        "read_ms": watcher.read_ms,
        "troubles": [],
        "tables": [],
    }
    if reading is None:
        return page
    troubles = [*(told.troubles if told else ()), *find_troubles(reading, commands)]
    page["troubles"] = [asdict(one) for one in troubles[:ROWS_SHOWN]]
    page["troubles_total"] = len(troubles)
    ids = reading.values.get(c.TRANSACTIONAL_IDS, {}).get(NO_LABELS)
    kept = "" if ids is None else f"The log keeps {ids:.0f} transactional ids; those with undecided data are shown."
    notes = {"Transactions": kept, **reading.notes}
    transactions = [_holder(one) for one in _by_age(reading, "transaction")]
    rounds = [_holder(one) for one in _by_age(reading, "round")]
    tables = [
        Table("Partitions", IN_LOG if c.LOG_START in reading.values else IN_KAFKA, _partitions(reading)),
        Table("Transactions", ("id", *HELD), transactions),
        *([Table("Rounds", ("sink", *HELD), rounds)] if c.ROUNDS in reading.values else ()),
        _sinks(reading),
        *([told.table] if told else ()),
        Table("Groups", ("group", "partitions", "lag", "lag over time"), _groups(watcher, reading)),
        Table("Decisions", ("time", "what"), [[at_ms, what] for at_ms, what in events]),
    ]
    page["tables"] = [shown(one, notes.get(one.title, ""), wanted) for one in tables]
    return page


def _partitions(reading: Reading) -> list[Row]:
    """Those that are held first, and by how much."""
    holders: dict[str, list[Holder]] = {}
    for one in reading.holders:
        for partition in one.partitions:
            holders.setdefault(partition, []).append(one)
    rows: list[tuple[tuple[float, str, int], Row]] = []
    for where, stable in reading.values.get(c.LAST_STABLE, {}).items():
        topic, number = where
        name = f"{topic}-{number}"
        start = [_value(reading, c.LOG_START, *where)] if c.LOG_START in reading.values else []
        end = _value(reading, c.LOG_END, *where) or 0
        holding = holders.get(name, [])
        oldest = max((one.age_seconds for one in holding), default=None)
        row = [name, *start, stable, end, few(map(label, holding)), oldest]
        rows.append(((stable - end, topic, int(number)), row))
    return [row for _, row in sorted(rows, key=lambda one: one[0])]


def _by_age(reading: Reading, kind: str) -> list[Holder]:
    quiet = {"hanging": 0, "overdue": 0, "prepared": 1, "open": 1}
    found = [one for one in reading.holders if one.kind == kind]
    return sorted(found, key=lambda one: (quiet.get(one.state, 2), -one.age_seconds))


def _holder(one: Holder) -> Row:
    return [label(one), one.state, one.age_seconds, one.timeout_seconds or None, few([*one.partitions, *one.groups])]


STATES: Final = ("undecided", "decided", "aborted", "visible")
"""Of batches, those first that an operator looks for."""


def _sinks(reading: Reading) -> Table:
    """Sinks with one decision are one row, and unfold to each."""
    decisions: dict[object, list[Labels]] = {}
    states = batch_states(reading)
    for ledger in sorted(states, key=lambda one: (STATES.index(states[one]), one[1], one[0])):
        decisions.setdefault(reading.steps.get(ledger, ledger), []).append(ledger)
    parts = [[_sink(reading, one, states[one]) for one in ledgers] for ledgers in decisions.values()]
    rows = [found[0] if len(found) == 1 else _together(found) for found in parts]
    columns = ("prefix", "target", "query", "last batch", "round", "state")
    return Table("Sinks", columns, rows, [found if len(found) > 1 else [] for found in parts])


def _sink(reading: Reading, ledger: Labels, state: str) -> Row:
    target, prefix = ledger
    query = reading.queries.get(ledger, "")
    return [
        prefix,
        target,
        query,
        _value(reading, c.BATCH_LAST, *ledger),
        _value(reading, c.BATCH_ROUND, *ledger),
        state,
    ]


def _together(rows: Sequence[Row]) -> Row:
    """What all say, and of what they do not, how many say what. Its names stay the same while states change."""
    prefixes, targets, queries, batches, rounds, states = (
        list(dict.fromkeys(column)) for column in zip(*rows, strict=True)
    )
    counts = Counter(row[-1] for row in rows)
    state = states[0] if len(states) == 1 else ", ".join(f"{one} in {count}" for one, count in counts.items())
    common = [one[0] if len(one) == 1 else None for one in (batches, rounds)]
    return [few(sorted(prefixes)), few(sorted(targets)), queries[0], *common, state]


def _groups(watcher: Watcher, reading: Reading) -> list[Row]:
    counts: dict[str, int] = {}
    for group, *_ in reading.values.get(c.GROUP_LAG, {}):
        counts[group] = counts.get(group, 0) + 1
    found = [(group, list(lags)) for group, lags in watcher.history.lags.items() if group in counts]
    found.sort(key=lambda one: (-one[1][-1], one[0]))
    return [[group, counts[group], lags[-1], lags] for group, lags in found]


def _value(reading: Reading, metric: Metric, *labels: str) -> float | None:
    return reading.values.get(metric, {}).get(labels)
