"""Every single crash of every core scenario breaks no law; pairs of crashes are run by the command."""

from __future__ import annotations

import pytest

from oncelog.log.segment import SegmentWriter
from simulation import exhaustive
from simulation.scenarios import SCENARIOS

pytestmark = pytest.mark.sampled


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_crash_anywhere_breaks_no_law(name: str) -> None:
    """conformance: 14, 25, 44."""
    found = exhaustive.singles(name, variants=1)

    assert found.failures == {}
    assert found.places >= 3


@pytest.mark.parametrize("name", ["OneTransaction", "Fencing"])
def test_a_second_crash_anywhere_breaks_no_law(name: str) -> None:
    """conformance: 14, 25, 44."""
    found = exhaustive.pairs(name, first=5)

    assert found.failures == {}
    assert found.places >= 5


def test_a_planted_bug_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SegmentWriter, "_finish_file", lambda self: setattr(self, "_current", None))

    assert exhaustive.singles("OneTransaction", variants=1).failures
