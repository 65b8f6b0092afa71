"""The error tree: its drawing, its branches, and its way between processes."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator

import pytest

from oncelog import errors
from oncelog.errors import InvariantViolation, OncelogError, UsageError, ensure

BRANCHES = {"RetriableError", "AbortableError", "FatalError", "OutcomeUnknownError", "UsageError"}


def subclasses(kind: type[OncelogError]) -> Iterator[type[OncelogError]]:
    for child in kind.__subclasses__():
        if child.__module__ == errors.__name__:
            yield child
            yield from subclasses(child)


ALL: list[type[OncelogError]] = [OncelogError, *subclasses(OncelogError)]


def drawn_parents() -> dict[str, str]:
    """Child to parent, as the drawing in the module's docstring shows them."""
    parents: dict[str, str] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"    ([│ ├└─]*)(\w+)", line)
        if match:
            depth = len(match[1]) // 4
            path[depth:] = [match[2]]
            if depth:
                parents[match[2]] = path[depth - 1]
    return parents


def test_the_drawn_tree_is_the_class_tree() -> None:
    assert drawn_parents() == {kind.__name__: kind.__bases__[0].__name__ for kind in ALL[1:]}


def test_every_error_belongs_to_one_branch_that_says_what_to_do_next() -> None:
    for kind in ALL[1:]:
        branches = BRANCHES & {ancestor.__name__ for ancestor in kind.__mro__}
        assert len(branches) == 1, kind


@pytest.mark.parametrize("kind", ALL)
def test_an_error_survives_the_way_between_processes(kind: type[OncelogError]) -> None:
    error = kind("what happened and what to do", transactional_id="copier-0", epoch=3, owner=None)

    arrived = pickle.loads(pickle.dumps(error))

    assert type(arrived) is kind
    assert arrived.message == "what happened and what to do"
    assert arrived.fields == {"transactional_id": "copier-0", "epoch": 3, "owner": None}
    assert str(arrived) == str(error)


def test_the_text_is_the_message_and_the_named_fields() -> None:
    assert str(OncelogError("the topic is gone")) == "the topic is gone"
    assert str(OncelogError("the topic is gone", topic="a b", offset=7)) == "the topic is gone [topic='a b', offset=7]"


def test_a_wrong_call_is_a_value_error_too() -> None:
    with pytest.raises(ValueError, match="no such option"):
        raise UsageError("no such option")


def test_ensure_passes_what_holds_and_names_the_broken_law() -> None:
    ensure(True, "offsets grow", first=1)

    with pytest.raises(InvariantViolation, match=r"^offsets grow \[first=2, last='1'\]$"):
        ensure(False, "offsets grow", first=2, last="1")
    with pytest.raises(InvariantViolation, match=r"^offsets grow$"):
        ensure(False, "offsets grow")


def test_a_bug_is_not_caught_as_a_failed_request() -> None:
    assert not issubclass(InvariantViolation, OncelogError)
