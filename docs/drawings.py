"""The drawings of the docs, as SVG: the states of a transactional id, out of their table, and the way of a micro-batch.

In a page of the site they take the colours of its mode; alone, as on a forge, those of the reader's system.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import Final

from oncelog.protocol.txn_state import PENDING_ONLY, TRANSITIONS, TxnState

Point = tuple[float, float]

WIDTH, HEIGHT = 150, 34
"""Of a box."""

STYLE = """<style>
.drawing { --ink: #24292f; --accent: #3f51b5 }
.drawing { color: var(--md-typeset-color, var(--ink)); font: 13px system-ui, sans-serif }
@media (prefers-color-scheme: dark) { .drawing { --ink: #d0d7de; --accent: #8c9eff } }
.drawing text { fill: currentColor; text-anchor: middle; dominant-baseline: central }
.drawing .label { font-size: 11px; paint-order: stroke; stroke: var(--md-default-bg-color, none); stroke-width: 4px }
.drawing rect, .drawing path { fill: none; stroke: currentColor; stroke-width: 1.2 }
.drawing .frame, .drawing .lane { stroke-dasharray: 4 4; opacity: .6 }
.drawing .strong { stroke: var(--md-typeset-a-color, var(--accent)); stroke-width: 2.4 }
.drawing marker path { fill: currentColor; stroke: none }
</style>
<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="9" markerHeight="9"
 markerUnits="userSpaceOnUse" orient="auto">
<path d="M0 0 8 4 0 8z"/></marker></defs>"""


def svg(title: str, view: tuple[int, int, int, int], parts: Iterable[str], style: str = STYLE) -> str:
    """A whole drawing."""
    box = " ".join(map(str, view))
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" class="drawing" role="img" viewBox="{box}">'
    return "\n".join([opening, f"<title>{escape(title)}</title>", style, *parts, "</svg>\n"])


def text(at: Point, content: str, kind: str = "label") -> str:
    """A line of text around a point."""
    return f'<text class="{kind}" x="{at[0]:g}" y="{at[1]:g}">{escape(content)}</text>'


def box(at: Point, content: str) -> str:
    """A named box around a point."""
    corner = f'x="{at[0] - WIDTH / 2:g}" y="{at[1] - HEIGHT / 2:g}"'
    return f'<rect {corner} width="{WIDTH}" height="{HEIGHT}" rx="8"/>' + text(at, content, "name")


def arrow(path: str, label: str = "", at: Point = (0, 0), kind: str = "line") -> str:
    """An arrow along an SVG path, with a label somewhere."""
    return f'<path class="{kind}" d="{path}" marker-end="url(#tip)"/>' + (text(at, label) if label else "")


# States of a transactional id ---------------------------------------------------------------------------------------

AT_REST: Final = (TxnState.EMPTY, TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT)
"""Drawn in one frame, since the same states may follow each of them."""

PLACES: Final[Mapping[TxnState, Point]] = {
    TxnState.COMPLETE_COMMIT: (115, 70),
    TxnState.EMPTY: (115, 150),
    TxnState.COMPLETE_ABORT: (115, 230),
    TxnState.DEAD: (115, 330),
    TxnState.ONGOING: (400, 150),
    TxnState.PREPARE_COMMIT: (645, 70),
    TxnState.PREPARE_EPOCH_FENCE: (645, 150),
    TxnState.PREPARE_ABORT: (645, 230),
}

FROM_REST: Final[Mapping[TxnState, str]] = {
    TxnState.EMPTY: arrow("M20 100C-30 100-30 150 38 150", "init", (-28, 124)),
    TxnState.ONGOING: arrow("M210 150H323", "first write", (266, 140)),
    TxnState.PREPARE_ABORT: arrow("M210 262Q645 320 645 249"),
    TxnState.DEAD: arrow("M115 272V311", "the id expires", (166, 292)),
}
"""The arrows that leave the frame."""

ARROWS: Final[Mapping[tuple[TxnState, TxnState], str]] = {
    (TxnState.ONGOING, TxnState.ONGOING): arrow("M380 133C370 90 430 90 420 133", "write", (400, 92)),
    (TxnState.ONGOING, TxnState.PREPARE_COMMIT): arrow("M475 140 568 80", "commit", (500, 104)),
    (TxnState.ONGOING, TxnState.PREPARE_ABORT): arrow("M475 160 568 220", "abort", (500, 196)),
    (TxnState.ONGOING, TxnState.PREPARE_EPOCH_FENCE): arrow("M475 150H568"),
    (TxnState.PREPARE_EPOCH_FENCE, TxnState.PREPARE_ABORT): arrow("M645 167V211"),
    (TxnState.PREPARE_COMMIT, TxnState.COMPLETE_COMMIT): arrow("M570 70H192", "markers written", (300, 60)),
    (TxnState.PREPARE_ABORT, TxnState.COMPLETE_ABORT): arrow("M570 230H192", "markers written", (300, 242)),
}


def states() -> str:
    """The table of transitions; a state or a step that has no place here is a KeyError."""
    parts = ['<rect class="frame" x="20" y="28" width="190" height="244" rx="12"/>', text((115, 40), "no transaction")]
    for state in TxnState:
        parts.append(box(PLACES[state], state))
        if state in PENDING_ONLY:
            parts.append(text((PLACES[state][0] + 45, PLACES[state][1] + 26), "never stored"))
        if state not in AT_REST:
            parts += [ARROWS[state, target] for target in TxnState if target in TRANSITIONS[state]]
    (followers,) = {TRANSITIONS[state] for state in AT_REST}
    parts += [FROM_REST[target] for target in TxnState if target in followers]
    return svg("States of a transactional id", (-50, 20, 785, 335), parts)


# One micro-batch ----------------------------------------------------------------------------------------------------

LANES: Final[Mapping[str, int]] = {"tasks": 90, "data files": 255, "driver": 420, "znodes": 585, "readers": 750}

STEPS: Final = [
    ("driver", "znodes", "begin: open a round", "line"),
    ("tasks", "data files", "write and fsync", "line"),
    ("tasks", "driver", "record batches: file, position, CRC", "line"),
    ("driver", "znodes", "append under the round", "line"),
    ("driver", "znodes", "decide: one write", "strong"),
    ("readers", "znodes", "plan: sees all of it", "line"),
    ("readers", "data files", "read record batches", "line"),
]


def micro_batch() -> str:
    """One micro-batch of the embedded log, from the top to the bottom."""
    bottom = 70 + 46 * len(STEPS)
    parts = []
    for lane, x in LANES.items():
        parts += [box((x, 30), lane), f'<path class="lane" d="M{x} 47V{bottom}"/>']
    for row, (source, target, label, kind) in enumerate(STEPS):
        y, start, end = 86 + 46 * row, LANES[source], LANES[target]
        parts.append(arrow(f"M{start} {y}H{end + (2 if end < start else -2)}", label, ((start + end) / 2, y - 9), kind))
        if kind == "strong":
            parts.append(text((170, y - 9), "crash above the line: the batch is aborted"))
            parts.append(text((170, y + 9), "crash below it: the batch is complete"))
            parts.append(f'<path class="frame" d="M10 {y}H{LANES["driver"] - 10}M{LANES["znodes"] + 10} {y}H830"/>')
    return svg("One micro-batch", (0, 0, 840, bottom + 10), parts)


DRAWINGS: Final = {"states.svg": states, "micro-batch.svg": micro_batch}
