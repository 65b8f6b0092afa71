"""How records become requests: pieces of memory, none of them larger than it may be."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.spark.kit.spark_files import FoundFile
from oncelog_search.committer import MOST_BYTES, MOST_RECORDS, _at_a_time
from oncelog_search.manifests import Manifest
from oncelog_search.sending import requests
from tests.support import strategies


@given(
    st.lists(strategies.texts(12)),
    st.integers(1, 40),
    st.integers(0, 5),
    st.sampled_from([pa.string(), pa.large_string()]),
)
def test_requests_have_all_records_in_their_order_and_are_as_large_as_they_may_be(
    texts: list[str], most: int, cut: int, type_: pa.DataType
) -> None:
    array = pa.array(texts, type_)[cut:]
    assert [(bytes(body), records) for body, records in requests(array, most)] == expected(texts[cut:], most)


def expected(texts: list[str], most: int) -> list[tuple[bytes, int]]:
    """The same, record by record."""
    found: list[tuple[bytes, int]] = []
    for text in texts:
        record = text.encode()
        if found and len(found[-1][0]) + len(record) <= most:
            found[-1] = (found[-1][0] + record, found[-1][1] + 1)
        else:
            found.append((record, 1))
    return found


@pytest.mark.parametrize(
    ("rows", "size", "largest", "records"),
    [
        (1_000, 200_000, 300, 25_000),
        (1_000, 1_000, 1, MOST_RECORDS),
        (1_000, 200_000, MOST_BYTES // 10, 10),
        (1, 50_000_000, 50_000_000, 1),
    ],
)
def test_a_task_has_no_more_records_in_its_memory_than_it_can_hold(
    rows: int, size: int, largest: int, records: int
) -> None:
    manifest = Manifest("p", 0, "i", "u", rows, largest, (FoundFile("one", size),))

    assert _at_a_time(manifest, 5_000_000) == records
