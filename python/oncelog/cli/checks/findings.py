"""What a check found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """How it stands with one thing."""

    OK = "ok"
    NOTE = "note"
    """It works, or is not needed; but it is good to know."""

    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report.

    Attributes:
        check: what was looked at.
        verdict: how it stands with it.
        found: what is there.
        remedy: what to do; None where there is nothing to do.
    """

    check: str
    verdict: Verdict
    found: str
    remedy: str | None = None


def ok(check: str, found: str) -> Finding:
    """Nothing to do."""
    return Finding(check, Verdict.OK, found)


def note(check: str, found: str, remedy: str | None = None) -> Finding:
    """Good to know."""
    return Finding(check, Verdict.NOTE, found, remedy)


def broken(check: str, found: str, remedy: str | None = None) -> Finding:
    """To be mended; an error's own sentence may say how."""
    return Finding(check, Verdict.BROKEN, found, remedy)
