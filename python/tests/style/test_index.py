"""The map from laws to tests is complete and up to date."""

from __future__ import annotations

from tests.spec import index
from tests.style.citations import LAWS


def test_the_index_of_laws_is_what_the_tests_cite_now() -> None:
    written = index.INDEX.read_text(encoding="utf-8")

    assert written == index.text(), "run `python -m tests.spec.index` in python/"


def test_every_law_has_a_test_or_a_reason() -> None:
    proven = index.proofs()

    assert [number for number in LAWS if number not in proven and number not in index.REASONS] == []


def test_every_law_has_a_test_that_takes_no_turns() -> None:
    proven = index.proofs()

    assert [number for number in proven if not any(proof.is_daily for proof in proven[number])] == []


def test_every_law_has_its_line_once_and_in_order() -> None:
    assert [number for laws in index.LAWS.values() for number in laws] == list(LAWS)


def test_a_reason_says_what_is_missing_or_that_there_is_no_counterpart() -> None:
    assert [text for text in index.REASONS.values() if not text.startswith(("Not yet: ", "No counterpart: "))] == []
