"""The report as one HTML page: style sheet and drawings are inside, nothing is loaded from elsewhere."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from flights import chart, kills
from flights.audit import FINDINGS, Findings, Result
from flights.markup import table, tag, text
from flights.story import KillStory

STYLE = Path(__file__).with_name("page.css")
WORDS = Path(__file__).with_name("words.html")

SINKS = {
    "oncelog": "foreachBatch(oncelog.spark.sink(…)) into the topic “delayed”",
    "parquet": 'foreachBatch with df.write.mode("append").parquet(…), as is usual today',
}

HEADLINE_FINDINGS = frozenset({"found", "lost", "duplicated", "half_batches"})


def write(path: Path, flights: int, results: Sequence[Result], phases: Mapping[str, float]) -> Path:
    """Write the page; returns where it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render(flights, results, phases), encoding="utf-8")
    return path


def render(flights: int, results: Sequence[Result], phases: Mapping[str, float]) -> str:
    """The page.

    Args:
        flights: rows of the CSV.
        results: oncelog's first.
        phases: of the job, with their seconds.
    """
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", "Exactly once, under kill -9"),
        tag("style", STYLE.read_text(encoding="utf-8")),
    )
    axes = chart.extent(result.story for result in results)
    main = tag(
        "main",
        _opening(flights, results),
        tag("section", *map(_card, results), class_="cards"),
        _chapter("The audit", "Every late departure, against the CSV."),
        _findings(results),
        _chapter(
            "The timeline",
            "Both drawings have the same axes. While the loader wrote in transactions and aborted every fifth on "
            "purpose, the query was killed and came back. Point at a second, a kill or a batch for its numbers.",
        ),
        *(_figure(result, axes) for result in results),
        _chapter("The kills", "What had happened when the process died, and what came of it."),
        _kills(results),
        WORDS.read_text(encoding="utf-8"),
        _chapter("Numbers of every second", "Offsets of the topic “flights”, summed over its partitions."),
        *map(_samples, results),
        _footer(phases),
    )
    return f"<!doctype html>\n{tag('html', head, tag('body', main), lang='en')}\n"


def _chapter(title: str, lead: str) -> str:
    return tag("h2", text(title)) + tag("p", text(lead))


def _opening(flights: int, results: Sequence[Result]) -> str:
    ours = results[0]
    kills = len(ours.story.kills)
    title = f"Killed {kills} times, every row exactly once" if ours.findings.is_exact else "The audit of oncelog failed"
    lead = (
        f"{flights:,} flights that left New York in 2013 went through two streaming queries that differ in their sink "
        f"alone. Each query was killed with SIGKILL at the same {kills} moments of a micro-batch, and started again. "
        "Then every row of both outputs was compared with the CSV that the flights came from."
    )
    return tag("h1", text(title)) + tag("p", text(lead), class_="lead")


# The audit ------------------------------------------------------------------------------------------------------------


def _card(result: Result) -> str:
    findings = result.findings
    figures = (
        tag("div", tag("dt", text(label)), tag("dd", _count(findings, name), class_=_fault(findings, name)))
        for label, name in FINDINGS
        if name in HEADLINE_FINDINGS
    )
    return tag(
        "article",
        tag("h3", text(result.story.pipeline)),
        tag("p", text(SINKS.get(result.story.pipeline, ""))),
        tag("p", _verdict(findings), class_=f"verdict {_verdict_class(findings)}"),
        tag("dl", *figures, class_="figures"),
        class_="card",
    )


def _findings(results: Sequence[Result]) -> str:
    head = [tag("th"), *(_number("th", text(result.story.pipeline)) for result in results)]
    rows = [
        [
            tag("th", text(label), scope="row"),
            *(_number("td", _count(result.findings, name), _fault(result.findings, name)) for result in results),
        ]
        for label, name in FINDINGS
    ]
    verdicts = (_number("td", _verdict(result.findings), _verdict_class(result.findings)) for result in results)
    return table(head, [*rows, [tag("th", "verdict", scope="row"), *verdicts]], class_="narrow audit")


def _count(findings: Findings, name: str) -> str:
    return f"{getattr(findings, name):,}"


def _fault(findings: Findings, name: str) -> str | None:
    return "bad" if findings.is_fault(name) else None


def _verdict(findings: Findings) -> str:
    return "✓ exactly once" if findings.is_exact else "✕ not exact"


def _verdict_class(findings: Findings) -> str:
    return "good" if findings.is_exact else "bad"


def _number(name: str, content: str, kind: str | None = None) -> str:
    return tag(name, content, class_=f"number {kind or ''}".strip())


# The timeline ---------------------------------------------------------------------------------------------------------


def _figure(result: Result, axes: chart.Extent) -> str:
    story = result.story
    facts = (
        f"{story.transactions:,} transactions, {story.aborted:,} of them aborted · "
        f"{len(story.sightings):,} batches seen in {story.looks:,} looks"
    )
    return tag(
        "figure",
        tag("figcaption", tag("h3", text(story.pipeline)), tag("span", text(facts))),
        tag("ul", *_legend(result.findings), class_="legend"),
        tag("div", chart.timeline(story, axes), class_="scroll"),
    )


def _legend(findings: Findings) -> Iterable[str]:
    yield _key("last stable offset", tag("line", class_="line stable", x1=1, x2=19, y1=8, y2=8))
    yield _key("read by the query", tag("line", class_="line read", x1=1, x2=19, y1=8, y2=8))
    yield _key("lag", tag("rect", class_="gap", x=1, y=2, width=18, height=12))
    yield _key("kill -9", tag("circle", class_="kill-badge", cx=10, cy=8, r=7))
    yield _key("until a new batch", tag("rect", class_="recovery", x=1, y=1, width=18, height=14))
    yield _key("batch, by its rows", tag("circle", class_="batch", cx=10, cy=8, r=6))
    if findings.duplicated:
        yield _key("copies of rows seen before", tag("path", class_="copies", d="M5 3l10 10m0 -10l-10 10"))
    if findings.half_batches:
        yield _key("half a batch", tag("path", class_="half", d="M12 2A6 6 0 0 0 12 14Z"))


def _key(label: str, mark: str) -> str:
    return tag("li", tag("svg", mark, viewBox="0 0 20 16", aria_hidden="true"), text(label))


def _samples(result: Result) -> str:
    names = ("second", "log end", "last stable offset", "read by the query", "lag")
    rows = ((sample.at_s, sample.log_end, sample.lso, sample.position, sample.lag) for sample in result.story.samples)
    cells = ([_number("td", f"{value:,.0f}") for value in row] for row in rows)
    numbers = table((_number("th", name) for name in names), cells, class_="narrow")
    return tag("details", tag("summary", text(result.story.pipeline)), numbers)


# The kills ------------------------------------------------------------------------------------------------------------


def _kills(results: Sequence[Result]) -> str:
    head = [tag("th"), tag("th", "moment")]
    for result in results:
        where = tag("th", text(f"where {result.story.pipeline} dies"))
        head += [where, _number("th", "new batch after"), _number("th", "copies")]
    rows = [
        [
            tag("td", tag("span", str(number), class_="badge")),
            tag("th", text(stories[0].kill), scope="row"),
            *(cell for result, story in zip(results, stories, strict=True) for cell in _kill_cells(result, story)),
        ]
        for number, stories in enumerate(zip(*(result.story.kills for result in results), strict=True), start=1)
    ]
    return tag("div", table(head, rows), class_="scroll")


def _kill_cells(result: Result, story: KillStory) -> Iterable[str]:
    kill = kills.named(story.kill)
    where = kill.in_oncelog if result.story.pipeline == "oncelog" else kill.in_parquet
    copies = result.copies_after(story)
    yield tag("td", tag("small", text(where)))
    yield _number("td", f"{story.recovered_s:.1f} s" + tag("small", f"Spark up: {story.back_s:.1f} s"))
    yield _number("td", f"{copies:,}", "bad" if copies else None)


def _footer(phases: Mapping[str, float]) -> str:
    times = " · ".join(f"{name}: {seconds:.1f} s" for name, seconds in phases.items())
    machine = [
        f"{os.cpu_count()} cores",
        f"{platform.system()} {platform.machine()}",
        f"Python {platform.python_version()}",
        *(f"{package} {version(package)}" for package in ("pyspark", "pyarrow")),
    ]
    return tag("footer", tag("p", text(times)), tag("p", text(" · ".join(machine))))
