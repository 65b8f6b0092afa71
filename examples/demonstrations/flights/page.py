"""The report as one HTML page: style sheet and drawings are inside, nothing is loaded from elsewhere."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from flights import chart, kills
from flights.audit import FAULTS, Findings, Result
from flights.markup import table, tag, text
from flights.story import KillStory, Story

STYLE = Path(__file__).with_name("page.css")
WORDS = Path(__file__).with_name("words.html")

TIMELINES = (
    "Both drawings have the same axes. While the loader wrote in transactions and aborted every fifth on purpose, the "
    "query was killed and came back. Point at a second, a kill or a batch for its numbers."
)

SINKS = {
    "oncelog": "foreachBatch(oncelog.spark.sink(…))",
    "parquet": 'foreachBatch with df.write.mode("append").parquet(…)',
}


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
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", "Exactly once, under kill -9"),
        tag("style", STYLE.read_text(encoding="utf-8")),
    )
    axes = chart.extent(result.story for result in results)
    main = tag(
        "main",
        tag("div", *(_card(result, axes) for result in results), class_="cards"),
        tag("p", text(TIMELINES), class_="note"),
        _kills(results),
        WORDS.read_text(encoding="utf-8"),
        _samples(results),
    )
    body = tag("body", _opening(flights, results), main, _footer(phases))
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _opening(flights: int, results: Sequence[Result]) -> str:
    ours = results[0]
    kills = len(ours.story.kills)
    title = f"Killed {kills} times, every row exactly once" if ours.findings.is_exact else "The audit of oncelog failed"
    lead = (
        f"{flights:,} flights that left New York in 2013 went through two streaming queries, which look for late "
        f"departures and differ only in their sink. Each was killed with SIGKILL at the same {kills} moments of a "
        "micro-batch, and started again. Then every row that they wrote was compared with the CSV of the flights."
    )
    return tag("header", tag("h1", text(title)), tag("p", text(lead), class_="lead"))


# A pipeline: what the audit found, and its timeline -------------------------------------------------------------------


def _card(result: Result, axes: chart.Extent) -> str:
    story, findings = result.story, result.findings
    return tag(
        "article",
        tag("h2", text(story.pipeline)),
        tag("p", tag("code", text(SINKS[story.pipeline]))),
        tag("p", _verdict(findings), class_="verdict"),
        tag("dl", *_figures(findings), class_="figures"),
        tag("ul", *_legend(findings), class_="legend"),
        tag("figure", chart.timeline(story, axes), tag("figcaption", text(_facts(story)))),
        class_=f"card {'exact' if findings.is_exact else 'inexact'}",
    )


def _verdict(findings: Findings) -> str:
    word = "✓ exactly once" if findings.is_exact else "✕ not exactly once"
    return tag("strong", word) + text(f" {findings.found:,} of {findings.expected:,} rows found")


def _figures(findings: Findings) -> Iterable[str]:
    for name, label in FAULTS.items():
        count = tag("dd", f"{getattr(findings, name):,}", class_="bad" if findings.is_fault(name) else None)
        yield tag("div", tag("dt", text(label)), count)


def _facts(story: Story) -> str:
    return (
        f"{story.transactions:,} transactions of the loader, {story.aborted:,} of them aborted on purpose; "
        f"{len(story.sightings):,} batches seen in {story.looks:,} looks at the output"
    )


def _legend(findings: Findings) -> Iterable[str]:
    yield _key("kill -9", tag("circle", class_="kill-badge", cx=10, cy=8, r=7))
    yield _key("until a new batch", tag("rect", class_="recovery", x=1, y=1, width=18, height=14))
    yield _key("last stable offset", tag("line", class_="line stable", x1=1, x2=19, y1=8, y2=8))
    yield _key("read by the query", tag("line", class_="line read", x1=1, x2=19, y1=8, y2=8))
    yield _key("lag", tag("rect", class_="gap", x=1, y=2, width=18, height=12))
    yield _key("batch, by its rows", tag("circle", class_="batch", cx=10, cy=8, r=6))
    if findings.duplicated:
        yield _key("copies of rows seen before", chart.cross(10, 8))
    if findings.half_batches:
        yield _key("half a batch", chart.half(13, 8))


def _key(label: str, mark: str) -> str:
    return tag("li", tag("svg", mark, viewBox="0 0 20 16", aria_hidden="true"), text(label))


# The kills, and the numbers -------------------------------------------------------------------------------------------


def _section(title: str, lead: str, *content: str, kind: str) -> str:
    return tag("section", tag("h2", text(title)), tag("p", text(lead)), *content, class_=kind)


def _kills(results: Sequence[Result]) -> str:
    head = (tag("th", text(name), scope="col") for name in ("moment", *(result.story.pipeline for result in results)))
    rows = (
        [
            tag("th", tag("span", str(number), class_="badge"), text(stories[0].kill), scope="row"),
            *(tag("td", *_outcome(result, story)) for result, story in zip(results, stories, strict=True)),
        ]
        for number, stories in enumerate(zip(*(result.story.kills for result in results), strict=True), start=1)
    )
    lead = "What had happened when the process died, and how many rows are there twice because of it."
    return _section("The kills", lead, table(head, rows), kind="kills")


def _outcome(result: Result, story: KillStory) -> Iterable[str]:
    kill = kills.named(story.kill)
    copies = result.copies_after(story)
    yield tag("strong", f"{copies:,} copies", class_="bad" if copies else None)
    yield tag("span", text(kill.in_oncelog if result.story.pipeline == "oncelog" else kill.in_parquet))
    yield tag("small", f"new batch after {story.recovered_s:.1f} s, Spark up after {story.back_s:.1f} s")


def _samples(results: Sequence[Result]) -> str:
    lead = "Offsets of the topic “flights”, summed over its partitions."
    return _section("Numbers of every second", lead, *(_numbers(result.story) for result in results), kind="samples")


def _numbers(story: Story) -> str:
    names = ("second", "log end", "last stable offset", "read by the query", "lag")
    rows = ((sample.at_s, sample.log_end, sample.lso, sample.position, sample.lag) for sample in story.samples)
    cells = ([tag("td", f"{value:,.0f}") for value in row] for row in rows)
    return tag("details", tag("summary", text(story.pipeline)), table((tag("th", name) for name in names), cells))


def _footer(phases: Mapping[str, float]) -> str:
    times = " · ".join(f"{name}: {seconds:.1f} s" for name, seconds in phases.items())
    machine = [
        f"{os.cpu_count()} cores",
        f"{platform.system()} {platform.machine()}",
        f"Python {platform.python_version()}",
        *(f"{package} {version(package)}" for package in ("pyspark", "pyarrow")),
    ]
    return tag("footer", tag("p", text(times)), tag("p", text(" · ".join(machine))))
