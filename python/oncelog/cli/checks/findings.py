"""The results of checks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from oncelog.secrecy import hidden


class Verdict(StrEnum):
    """The result of one check."""

    OK = "ok"
    NOTE = "note"
    """It works, or is not needed, but is worth knowing."""

    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report.

    Attributes:
        check: what was checked.
        found: what the check found, without secrets.
        remedy: what to do; None if there is nothing to do.
    """

    check: str
    verdict: Verdict
    found: str
    remedy: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "found", hidden(self.found))


def ok(check: str, found: str) -> Finding:
    """A finding that needs no attention."""
    return Finding(check, Verdict.OK, found)


def note(check: str, found: str, remedy: str | None = None) -> Finding:
    """A finding that is worth knowing."""
    return Finding(check, Verdict.NOTE, found, remedy)


def broken(check: str, found: str, remedy: str | None = None) -> Finding:
    """A finding that must be fixed. Without a remedy, `found` is an error that says how."""
    return Finding(check, Verdict.BROKEN, found, remedy)
