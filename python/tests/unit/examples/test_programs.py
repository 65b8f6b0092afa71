"""The examples that need no Spark run as they stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.docs.examples import names, run_beside

pytestmark = [pytest.mark.slow, pytest.mark.sampled]

RUN_ELSEWHERE = {
    *("quick_start", "good_and_bad_rows", "windowed_aggregation", "lost_checkpoint"),  # tests/spark/test_examples.py
    *("kafka_to_kafka", "kafka_to_log", "log_to_kafka"),  # connectors/kafka/tests/test_examples.py
}
PRINTED = {
    "producer_and_consumer": [
        "Aborted: the payment failed",
        "ann: an invoice for 3 apples",
        "bob: an invoice for 1 pear",
    ],
    "backup_and_restore": ["Restored: ['three apples']; 0 problems found"],
    "crash_test": [
        f"killed at {point}: each record once"
        for point in ("producer.init", "file.finished", "producer.end", "producer.ended")
    ],
}


def test_each_example_has_a_test() -> None:
    assert names() == RUN_ELSEWHERE | set(PRINTED)


@pytest.mark.parametrize("name", PRINTED)
def test_an_example_prints_what_it_promises(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # crash_test.py makes its folders itself

    printed = run_beside(name, *[tmp_path] if name != "crash_test" else [])

    assert sorted(printed.splitlines()) == sorted(PRINTED[name])
