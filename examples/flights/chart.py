"""The timeline of one run, as an SVG drawing. Colours and fonts come from the page's style sheet, by class.

Three panels share the time: offsets of the topic, the lag, and the batches as a reader saw them. Kills go through all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape

from flights.story import KillStory, Sample, Sighting, Story

WIDTH = 1080
LEFT, RIGHT = 64, 16
KILLS_Y = 16
OFFSETS = (36, 206)
LAG = (236, 306)
BATCHES = (336, 376)
TIMES_Y = 396
HEIGHT = 404

KILL_RADIUS = 9.5
BATCH_RADIUS = (2.5, 8.0)


@dataclass(frozen=True, slots=True)
class Extent:
    """How far the axes go: the same for both runs, so that their drawings can be compared."""

    seconds: float
    offsets: int
    lag: int
    batch_rows: int


def extent(stories: Iterable[Story]) -> Extent:
    """The axes that all stories fit into."""
    known = list(stories)
    samples = [sample for story in known for sample in story.samples]
    return Extent(
        seconds=max((story.duration_s for story in known), default=1.0),
        offsets=max((sample.log_end for sample in samples), default=1),
        lag=max((sample.lag for sample in samples), default=1) or 1,
        batch_rows=max((sighting.rows for story in known for sighting in story.sightings), default=1),
    )


def timeline(story: Story, axes: Extent) -> str:
    """The drawing of one run."""
    x = _scale(axes.seconds, LEFT, WIDTH - RIGHT)
    parts = [
        *_recoveries(story.kills, x),
        *_grid("offsets", axes.offsets, OFFSETS),
        *_grid("lag", axes.lag, LAG),
        *_times(axes.seconds, x),
        *_offset_lines(story.samples, x, _scale(axes.offsets, OFFSETS[1], OFFSETS[0])),
        _area(story.samples, x, _scale(axes.lag, LAG[1], LAG[0])),
        *_kills(story.kills, x),
        *_hovers(story.samples, x),
        *_batches(story, x, axes.batch_rows),
    ]
    label = escape(f"Timeline of {story.pipeline}: offsets, lag and batches over {axes.seconds:.0f} seconds, with kills")
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


# Axes -----------------------------------------------------------------------------------------------------------------


def round_steps(largest: float, most: int) -> list[float]:
    """At most `most` round numbers above 0 and up to `largest`, evenly apart."""
    rough = largest / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    return [step * count for count in range(1, math.floor(largest / step) + 1)]


def _scale(largest: float, start: float, end: float) -> Callable[[float], float]:
    return lambda value: round(start + (end - start) * value / largest, 1)


def _grid(name: str, largest: int, panel: tuple[int, int]) -> Iterable[str]:
    top, bottom = panel
    y = _scale(largest, bottom, top)
    yield f'<text class="name" x="{LEFT}" y="{top - 8}">{name}</text>'
    for value in (0.0, *round_steps(largest, 4 if bottom - top > 100 else 2)):
        line = "axis" if value == 0 else "grid"
        yield f'<line class="{line}" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(value)}" y2="{y(value)}"/>'
        yield f'<text class="tick" x="{LEFT - 8}" y="{y(value) + 4}" text-anchor="end">{_short(value)}</text>'


def _short(value: float) -> str:
    return f"{value / 1000:g}k" if value >= 1000 else f"{value:g}"


def _times(seconds: float, x: Callable[[float], float]) -> Iterable[str]:
    for value in (0.0, *round_steps(seconds, 12)):
        yield f'<text class="tick" x="{x(value)}" y="{TIMES_Y}" text-anchor="middle">{value:g} s</text>'


# Series ---------------------------------------------------------------------------------------------------------------


def _offset_lines(
    samples: Sequence[Sample], x: Callable[[float], float], y: Callable[[float], float]
) -> Iterable[str]:
    stable = [f"{x(sample.at_s)},{y(sample.lso)}" for sample in samples]
    read = [f"{x(sample.at_s)},{y(sample.position)}" for sample in samples]
    yield f'<polygon class="gap" points="{" ".join([*stable, *reversed(read)])}"/>'
    yield f'<polyline class="line stable" points="{" ".join(stable)}"/>'
    yield f'<polyline class="line read" points="{" ".join(read)}"/>'


def _area(samples: Sequence[Sample], x: Callable[[float], float], y: Callable[[float], float]) -> str:
    line = [f"{x(sample.at_s)},{y(sample.lag)}" for sample in samples]
    if not line:
        return ""
    foot = [f"{x(samples[-1].at_s)},{y(0)}", f"{x(samples[0].at_s)},{y(0)}"]
    return (
        f'<polygon class="gap" points="{" ".join([*line, *foot])}"/>'
        f'<polyline class="line lag" points="{" ".join(line)}"/>'
    )


def _hovers(samples: Sequence[Sample], x: Callable[[float], float]) -> Iterable[str]:
    """One invisible column per sample, whose tooltip has the numbers."""
    for sample, following in zip(samples, samples[1:], strict=False):
        left, right = x(sample.at_s), x(following.at_s)
        text = (
            f"{sample.at_s:.0f} s: last stable offset {sample.lso:,}, read by the query {sample.position:,}, "
            f"lag {sample.lag:,}, undecided {sample.log_end - sample.lso:,}"
        )
        yield (
            f'<rect class="hover" x="{left}" y="{OFFSETS[0]}" width="{right - left:.1f}" '
            f'height="{LAG[1] - OFFSETS[0]}"><title>{text}</title></rect>'
        )


# Kills and batches ----------------------------------------------------------------------------------------------------


def _recoveries(kills: Iterable[KillStory], x: Callable[[float], float]) -> Iterable[str]:
    for story in kills:
        left, right = x(story.at_s), x(story.at_s + story.recovered_s)
        yield (
            f'<rect class="recovery" x="{left}" y="{OFFSETS[0]}" width="{right - left:.1f}" '
            f'height="{BATCHES[1] - OFFSETS[0]}"/>'
        )


def _kills(kills: Iterable[KillStory], x: Callable[[float], float]) -> Iterable[str]:
    for number, story in enumerate(kills, start=1):
        at = x(story.at_s)
        text = escape(
            f"kill {number} at {story.at_s:.1f} s, {story.kill.moment}, batch {story.batch}: "
            f"a new batch {story.recovered_s:.1f} s later"
        )
        yield f'<line class="kill" x1="{at}" x2="{at}" y1="{KILLS_Y + KILL_RADIUS}" y2="{BATCHES[1]}"/>'
        yield (
            f'<g><circle class="kill-badge" cx="{at}" cy="{KILLS_Y}" r="{KILL_RADIUS}"/>'
            f'<text class="kill-number" x="{at}" y="{KILLS_Y + 4}" text-anchor="middle">{number}</text>'
            f"<title>{text}</title></g>"
        )


def _batches(story: Story, x: Callable[[float], float], most_rows: int) -> Iterable[str]:
    middle = (BATCHES[0] + BATCHES[1]) / 2
    halves = {half.batch for half in story.half_batches}
    yield f'<text class="name" x="{LEFT}" y="{BATCHES[0] - 8}">batches</text>'
    yield f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{middle}" y2="{middle}"/>'
    for sighting in story.sightings:
        smallest, largest = BATCH_RADIUS
        radius = smallest + (largest - smallest) * math.sqrt(sighting.rows / most_rows)
        yield _batch(sighting, x(sighting.at_s), middle, radius, is_half=sighting.batch in halves)


def _batch(sighting: Sighting, x: float, y: float, radius: float, *, is_half: bool) -> str:
    text = f"{sighting.at_s:.1f} s: batch {sighting.batch}, {sighting.rows:,} rows"
    if sighting.copies:
        return _cross(x, y, f"{text}, {sighting.copies:,} of them copies")
    if is_half:
        path = f"M{x} {y - radius:.1f} A{radius:.1f} {radius:.1f} 0 0 0 {x} {y + radius:.1f} Z"
        return f'<path class="half" d="{path}"><title>{text}: half a batch</title></path>'
    return f'<circle class="batch" cx="{x}" cy="{y}" r="{radius:.1f}"><title>{text}</title></circle>'


def _cross(x: float, y: float, text: str) -> str:
    arm = 6
    lines = f"M{x - arm} {y - arm} L{x + arm} {y + arm} M{x + arm} {y - arm} L{x - arm} {y + arm}"
    target = f'<circle class="hover" cx="{x}" cy="{y}" r="{arm + 3}"/>'
    return f'<g><path class="copies" d="{lines}"/>{target}<title>{text}</title></g>'
