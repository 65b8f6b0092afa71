"""The tables of the page, as JSON: what is not quiet comes first, and no table has more than some hundred rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, Final

from oncelog.metrics import catalogue as c
from oncelog.metrics.catalogue import Metric
from oncelog.metrics.reading import NO_LABELS, Holder, Reading
from oncelog.ui.troubles import Commands, find_troubles, label
from oncelog.ui.watching import Watcher, batch_states

ROWS_SHOWN: Final = 100

IN_LOG: Final = ("partition", "start", "stable to", "end", "held by", "held for")
IN_KAFKA: Final = ("partition", "stable to", "high watermark", "held by", "held for")

Row = list[Any]


def view(watcher: Watcher, commands: Commands, place: str, wanted: str = "") -> dict[str, Any]:
    """The page.

    Args:
        place: what is watched, as its heading says.
        wanted: only rows of the tables that have this text, in upper or lower case. Troubles are always shown.
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
    troubles = find_troubles(reading, commands)
    page["troubles"] = [asdict(one) for one in troubles[:ROWS_SHOWN]]
    page["troubles_total"] = len(troubles)
    ids = reading.values.get(c.TRANSACTIONAL_IDS, {}).get(NO_LABELS)
    kept = "" if ids is None else f"The log keeps {ids:.0f} transactional ids; those with undecided data are shown."
    notes = {"Transactions": kept, **reading.notes}
    transactions = [_holder(one) for one in _by_age(reading, "transaction")]
    rounds = [_holder(one) for one in _by_age(reading, "round")]
    tables = [
        ("Partitions", IN_LOG if c.LOG_START in reading.values else IN_KAFKA, _partitions(reading)),
        ("Transactions", ("id", "state", "age", "time-out", "holds"), transactions),
        ("Rounds", ("sink", "state", "age", "time-out", "holds"), rounds),
        ("Sinks", ("prefix", "target", "query", "last batch", "round", "state"), _sinks(reading)),
        ("Groups", ("group", "partitions", "lag", "lag over time"), _groups(watcher, reading)),
        ("Decisions", ("time", "what"), [[at_ms, what] for at_ms, what in events]),
    ]
    page["tables"] = [_table(*table, wanted, notes.get(table[0], "")) for table in tables]
    return page


def _table(title: str, columns: tuple[str, ...], rows: list[Row], wanted: str, note: str) -> dict[str, Any]:
    needle = wanted.casefold()
    found = [row for row in rows if needle in " ".join(map(str, row)).casefold()] if needle else rows
    shown = {"total": len(rows), "matching": len(found), "rows": found[:ROWS_SHOWN]}
    return {"title": title, "columns": columns, "note": note, **shown}


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
        row = [name, *start, stable, end, _few(map(label, holding)), oldest]
        rows.append(((stable - end, topic, int(number)), row))
    return [row for _, row in sorted(rows, key=lambda one: one[0])]


def _by_age(reading: Reading, kind: str) -> list[Holder]:
    quiet = {"hanging": 0, "overdue": 0, "prepared": 1, "open": 1}
    found = [one for one in reading.holders if one.kind == kind]
    return sorted(found, key=lambda one: (quiet.get(one.state, 2), -one.age_seconds))


def _holder(one: Holder) -> Row:
    return [label(one), one.state, one.age_seconds, one.timeout_seconds, _few([*one.partitions, *one.groups])]


def _sinks(reading: Reading) -> list[Row]:
    order = ("undecided", "decided", "aborted", "visible")
    states = sorted(batch_states(reading).items(), key=lambda one: (order.index(one[1]), one[0]))
    return [
        [
            prefix,
            target,
            reading.queries.get((target, prefix), ""),
            _value(reading, c.BATCH_LAST, target, prefix),
            _value(reading, c.BATCH_ROUND, target, prefix),
            state,
        ]
        for (target, prefix), state in states
    ]


def _groups(watcher: Watcher, reading: Reading) -> list[Row]:
    counts: dict[str, int] = {}
    for group, *_ in reading.values.get(c.GROUP_LAG, {}):
        counts[group] = counts.get(group, 0) + 1
    found = [(group, list(lags)) for group, lags in watcher.history.lags.items() if group in counts]
    found.sort(key=lambda one: (-one[1][-1], one[0]))
    return [[group, counts[group], lags[-1], lags] for group, lags in found]


def _value(reading: Reading, metric: Metric, *labels: str) -> float | None:
    return reading.values.get(metric, {}).get(labels)


def _few(names: Iterable[str]) -> str:
    """Some names, and how many more there are: a transaction may hold thousands of partitions."""
    found = list(names)
    return ", ".join(found[:5]) + (f" and {len(found) - 5} more" if len(found) > 5 else "")
