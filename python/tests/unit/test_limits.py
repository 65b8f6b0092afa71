"""Limits lean on each other; these are the relations that must survive a change of any of them."""

from __future__ import annotations

import ast
import inspect

from oncelog import limits

ZOOKEEPER_REQUEST_MAX_BYTES = 1_048_575
"""ZooKeeper's default jute.maxbuffer."""


def test_every_limit_is_followed_by_its_reason() -> None:
    statements = ast.parse(inspect.getsource(limits)).body
    starts = {node.lineno for node in statements if isinstance(node, ast.Assign | ast.Expr)}
    unexplained = [
        ast.unparse(node)
        for node in statements
        # Limits on neighbouring lines share the reason below them.
        if isinstance(node, ast.Assign) and (node.end_lineno or 0) + 1 not in starts
    ]

    assert unexplained == []


def test_a_multi_fits_into_a_request_of_zookeeper_with_room_for_its_frame() -> None:
    assert limits.MULTI_MAX_BYTES < 0.6 * ZOOKEEPER_REQUEST_MAX_BYTES


def test_the_list_of_unsettled_owners_fits_into_a_multi() -> None:
    bytes_per_owner = 200

    assert limits.MAX_UNSETTLED_OWNERS * bytes_per_owner < limits.MULTI_MAX_BYTES


def test_a_record_fits_into_a_file() -> None:
    assert limits.BLOCK_TARGET_BYTES <= limits.MAX_RECORD_BYTES < limits.FILE_ROLL_BYTES


def test_a_tombstone_outlives_every_step_that_read_before_the_deletion() -> None:
    assert limits.TOMBSTONE_MS > 100 * limits.TRANSACT_DEADLINE_MS


def test_a_step_gives_up_before_its_transaction_times_out() -> None:
    assert limits.TRANSACT_DEADLINE_MS < limits.DEFAULT_TRANSACTION_TIMEOUT_MS <= limits.MAX_TRANSACTION_TIMEOUT_MS


def test_a_producer_is_remembered_longer_than_its_longest_transaction() -> None:
    assert limits.MAX_TRANSACTION_TIMEOUT_MS < limits.PRODUCER_ID_EXPIRATION_MS
    assert limits.PRODUCER_ID_EXPIRATION_MS <= limits.TRANSACTIONAL_ID_EXPIRATION_MS


def test_files_of_an_undecided_batch_outlive_its_round() -> None:
    assert limits.ROUND_TIMEOUT_MS < limits.GENERATION_MIN_AGE_MS


def test_a_plan_that_starts_over_ends_within_a_steps_deadline() -> None:
    assert limits.PLAN_ATTEMPTS * limits.SETTLE_LAG_MS < limits.TRANSACT_DEADLINE_MS
