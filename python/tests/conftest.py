"""What holds for every test: it leaves nothing behind, and under CI no part of the tests goes missing.

Warnings are errors (pyproject.toml). Random tests print how to replay a failure.
"""

from __future__ import annotations

import gc
import signal
from collections.abc import Generator, Iterator

import pytest
from hypothesis import settings

from tests.support.harness import sharding
from tests.support.harness.leaks import held, left_over
from tests.support.harness.parts import CI, DEEP, DESK, MISSING_PART, are_parts_required, hypothesis_profile
from tests.support.harness.variants import is_between_variants, take_sample
from tests.support.servers.certificates import certificates
from tests.support.servers.kafka import kafka, kafka_ledgers
from tests.support.servers.opensearch import opensearch
from tests.support.servers.postgres import password, postgres, tls_postgres
from tests.support.servers.s3 import bucket
from tests.support.servers.shared import start_before_leak_check
from tests.support.servers.zookeeper import zookeeper

# No deadline: how long an example takes says nothing about its law. CI draws the same examples every time, so that a
# green commit stays green; desks draw new ones, and HYPOTHESIS_PROFILE=deep draws them for minutes.
EXAMPLES = 50
"""Of each property, every day; `HYPOTHESIS_PROFILE=deep` tries a hundred times as many."""

settings.register_profile(DESK, deadline=None, print_blob=True, max_examples=EXAMPLES)
settings.register_profile(CI, deadline=None, print_blob=True, derandomize=True, max_examples=EXAMPLES)
settings.register_profile(DEEP, deadline=None, print_blob=True, max_examples=5_000)
settings.load_profile(hypothesis_profile())

__all__ = [
    "bucket",
    "certificates",
    "kafka",
    "kafka_ledgers",
    "opensearch",
    "password",
    "postgres",
    "tls_postgres",
    "zookeeper",
]

FAILED = pytest.StashKey[bool]()


@pytest.fixture(autouse=True)
def _leaves_nothing_behind(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fail a test that leaves a child process, a thread, or an open file below its temporary folder.

    Being automatic and of this file, it comes before the other fixtures of a test and ends after them. What a module
    or session fixture holds (Spark's JVM) was there before it, and is no leak of the test.
    """
    folder = tmp_path_factory.getbasetemp()
    before = held(folder)
    yield
    if not request.node.stash.get(FAILED, False):  # a failed test has its own story to tell
        leaks = left_over(before, folder)
        if leaks:
            pytest.fail("the test left behind:\n" + "\n".join(leaks), pytrace=False)


def pytest_addoption(parser: pytest.Parser) -> None:
    sharding.add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    sharding.configure(config)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell script that runs tests in its background makes them, and all that they start, deaf to an interrupt.
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put what shares the Spark session last: a quick test's failure is seen early, and without a JVM beside it."""
    items[:] = [item for item in items if not is_between_variants(item)]
    items.sort(key=lambda item: "spark" in getattr(item, "fixturenames", ()))


def pytest_collection_finish() -> None:
    """Thousands of collected tests live until the end: the garbage collector need not look at them again and again."""
    gc.collect()
    gc.freeze()


def pytest_itemcollected(item: pytest.Item) -> None:
    take_sample(item)
    start_before_leak_check(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _fail_if_part_is_required(report)
    if report.failed:
        item.stash[FAILED] = True
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _fail_if_part_is_required(report)
    return report


def _fail_if_part_is_required(report: pytest.TestReport | pytest.CollectReport) -> None:
    if not (are_parts_required() and report.skipped and isinstance(report.longrepr, tuple)):
        return
    path, line, text = report.longrepr
    if text.removeprefix("Skipped: ").startswith(MISSING_PART):
        report.outcome = "failed"
        report.longrepr = f"{path}:{line}: {text} (ONCELOG_CI_REQUIRE forbids to go on without it)"
