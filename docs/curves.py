"""The curves of growth.md, as SVG, drawn from the page's own tables: a panel for each operation, on two logarithms.

A line is what one measure is at each size, to what it is at the smallest. The dotted line next to it grows in
proportion to the size.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, log10
from pathlib import Path
from typing import Final

from drawings import STYLE, svg, text

PAGE: Final = Path(__file__).parent / "growth.md"

COLUMNS, WIDTH, HEIGHT = 3, 280, 140
"""Panels in a row, and the size of one with its title and labels."""

LEFT, TOP, PLOT_WIDTH, PLOT_HEIGHT = 50, 30, 138, 80
"""Of the plot in a panel."""

LABEL_HEIGHT = 13

LEAST_TOP = 10.0
"""Of the ratios that a panel shows at least, so that noise does not look like growth."""

KINDS: Final[Mapping[str, str]] = {"CPU, µs": "dashed", "kB": "thin"}
"""How some measures are drawn; the others are counts."""

CURVES_STYLE: Final = f"""{STYLE}
<style>
.drawing .title {{ font-size: 12px; text-anchor: start }}
.drawing .end {{ font-size: 11px; text-anchor: start }}
.drawing .tick {{ font-size: 10px; text-anchor: end }}
.drawing .size {{ font-size: 10px }}
.drawing .grid {{ opacity: .25; stroke-width: 1 }}
.drawing .linear {{ opacity: .5; stroke-dasharray: 1 4 }}
.drawing .dashed {{ stroke-dasharray: 5 3 }}
</style>"""

_SECTION = re.compile(r"^## (?P<heading>.+?)\n(?P<body>.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_PICTURE = re.compile(r"!\[[^\]]*\]\(images/(?P<name>[\w-]+\.svg)\)")
_POWERS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")


@dataclass(frozen=True)
class Line:
    """One row of a table.

    Attributes:
        operation, measure: what is measured.
        values: by size, without those that were not measured.
        growth: as the table has it.
    """

    operation: str
    measure: str
    values: Mapping[int, float]
    growth: str

    @property
    def ratios(self) -> dict[int, float]:
        """The values to the one of the smallest size."""
        first = next(iter(self.values.values()))
        return {size: value / first for size, value in self.values.items()}


@dataclass(frozen=True)
class Section:
    """A curve of the page: its heading, the name of its picture, its sizes as the table writes them, and its lines."""

    heading: str
    picture: str
    sizes: Mapping[int, str]
    lines: Sequence[Line]


def sections(page: str) -> Iterator[Section]:
    """The curves of the page."""
    for found in _SECTION.finditer(page):
        picture = _PICTURE.search(found["body"])
        if picture is not None:
            (_, _, *sizes, _), _, *rows = _table(found["body"])
            named = {_size(cell): cell for cell in sizes}
            yield Section(found["heading"], picture["name"], named, [_line(row, list(named)) for row in rows])


def _table(body: str) -> list[list[str]]:
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in body.splitlines() if row.startswith("|")]


def _line(row: Sequence[str], sizes: Sequence[int]) -> Line:
    operation, measure, *cells, growth = row
    values = {size: float(cell.replace(",", "")) for size, cell in zip(sizes, cells, strict=True) if cell}
    return Line(operation, measure, values, growth)


def _size(power: str) -> int:
    """The size that a column's heading names as a power of ten, with raised digits."""
    return int("1" + "0" * int(power.removeprefix("10").translate(_POWERS)))


def drawings(page: str) -> dict[str, str]:
    """The pictures of the page, by their names."""
    return {section.picture: _picture(section) for section in sections(page)}


def _picture(section: Section) -> str:
    panels: dict[str, list[Line]] = {}
    for line in section.lines:
        panels.setdefault(line.operation, []).append(line)
    most = max(ratio for line in section.lines for ratio in line.ratios.values())
    scale = _Scale(section.sizes, 10.0 ** ceil(log10(max(LEAST_TOP, most))))
    parts = []
    for at, (operation, lines) in enumerate(panels.items()):
        corner = (at % COLUMNS * WIDTH, at // COLUMNS * HEIGHT)
        parts += [f'<g transform="translate({corner[0]} {corner[1]})">', *_panel(operation, lines, scale), "</g>"]
    height = ceil(len(panels) / COLUMNS) * HEIGHT
    return svg(f"{section.heading}: growth of costs", (0, 0, COLUMNS * WIDTH, height), parts, CURVES_STYLE)


@dataclass(frozen=True)
class _Scale:
    """Where sizes and ratios are in a panel."""

    sizes: Mapping[int, str]
    top: float
    bottom: float = 0.5

    @property
    def least(self) -> int:
        return min(self.sizes)

    @property
    def most(self) -> int:
        return max(self.sizes)

    def x(self, size: float) -> float:
        return LEFT + PLOT_WIDTH * log10(size / self.least) / log10(self.most / self.least)

    def y(self, ratio: float) -> float:
        within = max(ratio, self.bottom)
        return TOP + PLOT_HEIGHT * (1 - log10(within / self.bottom) / log10(self.top / self.bottom))


def _panel(operation: str, lines: Sequence[Line], scale: _Scale) -> Iterator[str]:
    yield text((LEFT, 14), operation, "title")
    for power in range(round(log10(scale.top)) + 1):
        y = scale.y(10**power)
        yield f'<path class="grid" d="M{LEFT} {y:.1f}h{PLOT_WIDTH}"/>'
        yield text((LEFT - 6, round(y, 1)), f"×{10**power:,}", "tick")
    for size in (scale.least, scale.most):
        yield text((scale.x(size), TOP + PLOT_HEIGHT + 12), scale.sizes[size], "size")
    top = min(scale.most / scale.least, scale.top)
    yield _path([(scale.least, 1), (scale.least * top, top)], scale, "linear")
    for line in lines:
        yield _path(line.ratios.items(), scale, KINDS.get(line.measure, "strong"))
    yield from _ends(lines, scale)


def _path(points: Iterable[tuple[float, float]], scale: _Scale, kind: str) -> str:
    places = [f"{scale.x(size):.1f} {scale.y(ratio):.1f}" for size, ratio in points]
    return f'<path class="{kind}" d="M{"L".join(places)}"/>'


def _ends(lines: Sequence[Line], scale: _Scale) -> Iterator[str]:
    """A label for each line, at its end or below the label of the line above it."""
    ends = [
        (scale.y(list(line.ratios.values())[-1]), f"{line.measure.partition(',')[0]} {line.growth}") for line in lines
    ]
    lowest = scale.y(1) - LABEL_HEIGHT * (len(ends) - 1)
    free = 0.0
    for at, (y, label) in enumerate(sorted(ends)):
        free = max(free, min(y, lowest + LABEL_HEIGHT * at))
        yield text((LEFT + PLOT_WIDTH + 6, round(free, 1)), label, "end")
        free += LABEL_HEIGHT
