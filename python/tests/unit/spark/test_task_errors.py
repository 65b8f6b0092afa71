"""An error that a task raised is raised again in the driver, as the class that it was."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import pytest

import oncelog
from oncelog.errors import InvariantViolation, OncelogError
from oncelog.spark import task_errors
from oncelog.znodes.errors import MultiFailedError, Refusal


def classes(kind: type[OncelogError] = OncelogError) -> Iterator[type[OncelogError]]:
    """All errors of oncelog, wherever they are defined."""
    yield kind
    for below in kind.__subclasses__():
        yield from classes(below)


def of_a_task(module: str, name: str, text: str = "the reason [topic='t']") -> Exception:
    """What PySpark raises of it, without its pages of stack traces."""
    return RuntimeError(f"Job aborted\n  File ...\n{module}.{name}: {text}\n\n\tat org.apache.spark.Somewhere")


@pytest.fixture(scope="module", autouse=True)
def _all_modules() -> None:
    for module in pkgutil.walk_packages(oncelog.__path__, "oncelog."):
        if module.name.endswith("errors"):
            importlib.import_module(module.name)


def test_every_class_survives_the_way_from_a_task() -> None:
    for kind in {*classes(), InvariantViolation}:
        if kind.__module__.startswith("oncelog"):
            with pytest.raises(kind) as raised, task_errors.in_one_sentence():
                raise of_a_task(kind.__module__, kind.__qualname__)
            assert (type(raised.value), str(raised.value)) == (kind, "the reason [topic='t']")


def test_a_class_that_takes_further_arguments_survives_too() -> None:
    thrown = MultiFailedError.at(1, "/a", Refusal.NO_NODE)

    with pytest.raises(MultiFailedError, match="path='/a'"), task_errors.in_one_sentence():
        raise of_a_task(type(thrown).__module__, type(thrown).__name__, str(thrown))


@pytest.mark.parametrize(
    ("module", "name"),
    [("oncelog.errors", "OfANewerVersionError"), ("oncelog_of_a_newer_version.failures", "SomeError")],
)
def test_a_class_that_only_the_executors_have_is_an_error_of_oncelog(module: str, name: str) -> None:
    with pytest.raises(OncelogError) as raised, task_errors.in_one_sentence():
        raise of_a_task(module, name)

    assert (type(raised.value), str(raised.value)) == (OncelogError, "the reason [topic='t']")


def test_other_errors_stay_as_they_are() -> None:
    for module, name in (("oncelog.testing.target_contract", "StoppedOnPurposeError"), ("builtins", "ValueError")):
        with pytest.raises(RuntimeError, match="Job aborted"), task_errors.in_one_sentence():
            raise of_a_task(module, name)
