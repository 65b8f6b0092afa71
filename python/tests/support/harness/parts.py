"""What a test does when the machine lacks a part that it needs: Java, a package index, a service.

On a desk the test is skipped, and the summary says what is missing and how to get it. Under CI, which sets
``ONCELOG_CI_REQUIRE=1``, such a skip is a failure (see conftest.py), so that no part of the tests goes missing unseen.
"""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

from tests.support.harness.java import java

MISSING_PART = "missing part: "

DESK, CI, DEEP = "desk", "ci", "deep"


def are_parts_required() -> bool:
    return bool(os.environ.get("ONCELOG_CI_REQUIRE"))


def hypothesis_profile() -> str:
    """Which examples random tests draw (see conftest.py): as ``HYPOTHESIS_PROFILE`` says, else by where they run."""
    return os.environ.get("HYPOTHESIS_PROFILE") or (CI if are_parts_required() else DESK)


def is_deep() -> bool:
    """Whether random histories and searches may take minutes: ``HYPOTHESIS_PROFILE=deep``."""
    return hypothesis_profile() == DEEP


def missing_part(part: str, remedy: str) -> NoReturn:
    """Skip the running test, or the module being imported, for want of `part`."""
    pytest.skip(f"{MISSING_PART}{part}; {remedy}", allow_module_level=True)


def require_java() -> None:
    if java() is None:
        missing_part("Java", "install a JRE of version 17 or newer, or set JAVA_HOME to one")
