"""Errors for packages of an extra that are missing, or too old for what is imported from them."""

from __future__ import annotations

import sys
from importlib import metadata
from types import ModuleType

import pytest

from oncelog.extras import extras


def test_a_package_that_is_not_installed_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kazoo", None)

    with pytest.raises(ModuleNotFoundError) as refused, extras("zookeeper", part="oncelog.znodes"):
        import kazoo  # noqa: F401

    assert str(refused.value) == "oncelog.znodes needs the package kazoo: install oncelog[zookeeper] as the README says"


@pytest.mark.parametrize("imported", ["from kafka import Nothing", "import kafka.nothing"])
def test_a_package_of_another_version_is_named_with_the_version_that_is_needed(
    monkeypatch: pytest.MonkeyPatch, imported: str
) -> None:
    old = ModuleType("kafka")
    old.__path__ = []
    monkeypatch.setitem(sys.modules, "kafka", old)

    with pytest.raises(ModuleNotFoundError) as refused, extras("kafka", part="oncelog_kafka"):
        exec(imported, {})

    found = f"kafka-python {metadata.version('kafka-python')}; it needs kafka-python<3.1,>=3.0.12"
    assert str(refused.value) == f"oncelog_kafka cannot use {found}: install oncelog[kafka] as the README says"


def test_a_fault_of_oncelog_itself_stays_what_it_is() -> None:
    with pytest.raises(ImportError, match="cannot import name 'nothing'"), extras("s3", part="x"):
        exec("from oncelog.types import nothing", {})
