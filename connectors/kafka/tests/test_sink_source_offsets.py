"""Which source offsets a batch commits to its group, from what Spark logged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncelog.batches.offsets import GroupProgress
from oncelog.errors import BatchRefusedError
from oncelog.spark.kit.context import BatchContext
from oncelog.types import TopicPartition
from oncelog_kafka.sinks.source_offsets import of_batch, parse_offsets

IN_0, IN_1 = TopicPartition("in", 0), TopicPartition("in", 1)

BATCH = BatchContext(
    query_id="query",
    run_id="run",
    checkpoint_root="/ck",
    batch_id=3,
    start_offsets=('{"in":{"0":5,"1":7}}',),
    end_offsets=('{"in":{"1":9,"0":8}}',),
    has_state=False,
)


def ours() -> str:
    """The cluster of the group."""
    return "Some5tringOf22letters0"


def test_the_offsets_of_a_kafka_source_are_the_groups_before_and_behind_the_batch() -> None:
    assert of_batch(BATCH, "g", ours) == GroupProgress("g", {IN_0: 5, IN_1: 7}, {IN_0: 8, IN_1: 9})


def test_the_first_batch_of_a_query_starts_nowhere() -> None:
    assert of_batch(replace(BATCH, start_offsets=(None,)), "g", ours).start == {}


def test_several_sources_of_different_partitions_are_one_progress() -> None:
    both = replace(
        BATCH, start_offsets=('{"a":{"0":1}}', '{"b":{"0":2}}'), end_offsets=('{"a":{"0":3}}', '{"b":{"0":4}}')
    )

    assert of_batch(both, "g", ours).end == {TopicPartition("a", 0): 3, TopicPartition("b", 0): 4}


def test_of_a_topic_that_was_created_again_the_group_gets_the_offsets_without_its_id() -> None:
    again = replace(BATCH, end_offsets=('{"in":{"0":2,"1":0},"@topicIds":{"in":"yLHgbGgWQ5u2bLYBkVQK3Q"}}',))

    assert of_batch(again, "g", ours).end == {IN_0: 2, IN_1: 0}


def test_of_a_topic_that_the_source_does_not_see_the_group_gets_nothing() -> None:
    unseen = replace(BATCH, end_offsets=('{"in":{"0":8,"1":9},"@absent":{"gone":{"0":4}}}',))

    assert of_batch(unseen, "g", ours).end == {IN_0: 8, IN_1: 9}


@pytest.mark.parametrize("text", ['{"logOffset":3}', "17", '"x"', "not json", '{"in":{"x":1}}', '{"in":{"0":"1"}}'])
def test_offsets_of_other_sources_are_not_kafkas(text: str) -> None:
    assert parse_offsets(text) is None
    with pytest.raises(BatchRefusedError, match="every source"):
        of_batch(replace(BATCH, end_offsets=(BATCH.end_offsets[0], text)), "g", ours)


def test_offsets_of_another_cluster_are_refused() -> None:
    """Topics of both clusters may have the same name."""
    elsewhere = replace(BATCH, source_clusters=(ours(), "Another5tringOfLetters"))

    with pytest.raises(BatchRefusedError, match="a source reads another cluster") as refusal:
        of_batch(elsewhere, "g", ours)
    assert refusal.value.fields["source_clusters"] == ["Another5tringOfLetters"]


@pytest.mark.parametrize("clusters", [(), (None,), (ours(),), (ours(), None)])
def test_offsets_of_the_groups_cluster_are_committed(clusters: tuple[str | None, ...]) -> None:
    assert of_batch(replace(BATCH, source_clusters=clusters), "g", ours).end == {IN_0: 8, IN_1: 9}


def test_a_partition_that_two_sources_read_has_no_one_offset() -> None:
    twice = replace(BATCH, start_offsets=BATCH.start_offsets * 2, end_offsets=BATCH.end_offsets * 2)

    with pytest.raises(BatchRefusedError, match="two sources"):
        of_batch(twice, "g", ours)


def test_state_does_not_resume_with_offsets() -> None:
    with pytest.raises(BatchRefusedError, match="keeps state"):
        of_batch(replace(BATCH, has_state=True), "g", ours)


def test_a_pattern_that_no_topic_matches_yet_has_no_offsets() -> None:
    assert of_batch(replace(BATCH, end_offsets=("{}",)), "g", ours).end == {}


def test_only_what_the_group_committed_can_stand_elsewhere() -> None:
    progress = GroupProgress("g", {IN_0: 5, IN_1: 7}, {})

    progress.check_unmoved({})
    progress.check_unmoved({IN_0: 5})
    with pytest.raises(BatchRefusedError, match=r"held_and_start=\{'in-1': \(8, 7\)\}"):
        progress.check_unmoved({IN_0: 5, IN_1: 8})
