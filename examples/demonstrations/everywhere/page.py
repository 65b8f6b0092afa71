"""How it ended, as one HTML page, which loads nothing from elsewhere: each store of both queries, against the truth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from everywhere import moments
from flights.markup import table, tag, text
from flights.page import STYLE
from kafka_flights.audit import Findings

CELLS = "th, td { padding: 3px 14px 3px 0; text-align: left; vertical-align: baseline; }"

ByStore = Mapping[str, Findings]

QUERIES = {
    "oncelog": ("under one decision", "foreachBatch(oncelog.spark.together(…))", moments.TOGETHER),
    "twin": ("one store after the other", "foreachBatch with df.write into each store", moments.TWIN),
}


def write(path: Path, late: int, found: Mapping[str, ByStore]) -> Path:
    """Write the page; returns where it is."""
    path.write_text(render(late, found), encoding="utf-8")
    return path


def render(late: int, found: Mapping[str, ByStore]) -> str:
    """The page.

    Args:
        late: number of late departures.
        found: what each query left in each store.
    """
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", "Exactly once, in every store"),
        tag("style", STYLE.read_text(encoding="utf-8") + CELLS),
    )
    main = tag("main", tag("div", *(_card(sink, stores) for sink, stores in found.items()), class_="cards"), _kills())
    return f"<!doctype html>\n{tag('html', head, tag('body', _opening(late, found), main), lang='en')}\n"


def _opening(late: int, found: Mapping[str, ByStore]) -> str:
    ours = found["oncelog"]
    title = f"{len(ours)} stores, one decision, every row exactly once" if _is_exact(ours) else "The audit failed"
    lead = (
        f"Two streaming queries wrote the {late:,} late departures of 2013 from New York into {len(ours)} stores. Each "
        f"was killed {len(moments.TOGETHER)} times with SIGKILL and started again, and between its lives PostgreSQL, "
        "the Kafka broker and the NameNode were killed, too. Then a client that is not oncelog's counted each row."
    )
    return tag("header", tag("h1", text(title)), tag("p", text(lead), class_="lead"))


def _card(sink: str, found: ByStore) -> str:
    title, code, _ = QUERIES[sink]
    verdict = "✓ exactly once" if _is_exact(found) else "✕ not exactly once"
    return tag(
        "article",
        tag("h2", text(title)),
        tag("p", tag("code", text(code))),
        tag("p", tag("strong", verdict), class_="verdict"),
        table(_cells("th", "store", "lost", "duplicated"), (_row(store, one) for store, one in found.items())),
        class_=f"card {'exact' if _is_exact(found) else 'inexact'}",
    )


def _row(store: str, found: Findings) -> Iterable[str]:
    yield tag("td", text(store))
    for count in (found.lost, found.duplicated):
        yield tag("td", f"{count:,}", class_="number bad" if count else "number")


def _kills() -> str:
    rows = (
        _cells("td", number + 1, *points)
        for number, points in enumerate(zip(*(q[2] for q in QUERIES.values()), strict=True))
    )
    head = _cells("th", "kill", *(title for title, _, _ in QUERIES.values()))
    return tag("section", tag("h2", "Where each kill came"), table(head, rows))


def _cells(name: str, *values: object) -> list[str]:
    return [tag(name, text(value)) for value in values]


def _is_exact(found: ByStore) -> bool:
    return all(one.is_exact for one in found.values())
