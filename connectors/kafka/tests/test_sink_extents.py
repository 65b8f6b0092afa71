"""Where the rows of batches are: recorded with each decision, kept behind the rounds, merged when there are many."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from oncelog import metadata
from oncelog.batches.rules import BatchRequest
from oncelog.batches.steps import OpenRound
from oncelog.errors import CorruptDataError, UsageError
from oncelog.ports import Znode, ZnodeStore
from oncelog.types import TopicIdPartition
from oncelog.znodes.memory import MemoryZnodeStore
from oncelog_kafka.ledger import ledger
from oncelog_kafka.ledger.ledger import KAFKA_LEDGERS, decided_batches
from oncelog_kafka.protocol import extents
from oncelog_kafka.protocol.extents import MAX_PARTITIONS, MERGED_EVERY, Batch, Extent, merge_old, merged
from oncelog_kafka.protocol.kafka_rounds import KafkaRound
from oncelog_kafka.protocol.participants import Participant
from oncelog_kafka.sinks import batch_writes
from tests.support.connectors.kafka_ledger import Ledger

PREFIX = "copier"
FOLDER = KAFKA_LEDGERS.path(PREFIX)


def at(offsets: Mapping[int, tuple[int, int]], topic: str = "out") -> dict[TopicIdPartition, Extent]:
    """Extents in a topic, by number of the partition."""
    return {TopicIdPartition(topic, f"id-of-{topic}", number): Extent(*both) for number, both in offsets.items()}


def steps(store: ZnodeStore, batch_id: int = 0) -> Ledger:
    return Ledger(store, BatchRequest(PREFIX, "query", "sink", "run-1", batch_id, f"fp-{batch_id}"))


def participant(number: int = 0, lease: int = 1) -> Participant:
    return Participant(f"copier-{number}-{lease}.0.0", number, 100 + number, 0, 2, 5, 17, "out")


def decide(
    store: ZnodeStore, batch_id: int, written: Mapping[TopicIdPartition, Extent], *, completes: bool = True
) -> OpenRound[KafkaRound]:
    asked = steps(store, batch_id)
    opened = asked.begin(lease=None, buckets=2)
    assert opened is not None
    asked.decide(opened, [participant(lease=opened.record.lease)], written=written)
    if completes:
        ledger.complete(store, PREFIX, opened.number)
        asked.forget_old_rounds()
        asked.merge_old_extents(opened.number)
    return opened


def test_a_decision_records_them_and_a_round_that_is_aborted_has_none(store: ZnodeStore) -> None:
    written = at({0: (5, 9), 1: (7, 7)}) | at({0: (0, 3)}, "other")
    opened = decide(store, 0, written, completes=False)
    asked = steps(store, 1)
    undecided = asked.begin(lease=None, buckets=None)
    assert undecided is not None
    asked.abort(undecided)

    assert decided_batches(store) == [Batch(written, is_over=False)]
    ledger.complete(store, PREFIX, opened.number)
    assert decided_batches(store) == [Batch(written, is_over=True)]


def test_what_is_written_again_is_added(store: ZnodeStore) -> None:
    opened = decide(store, 0, at({0: (5, 9), 1: (7, 7)}), completes=False)
    asked = steps(store)
    lease = asked.record_lost(opened.number, ["copier-0-1.0.0"])
    for _ in range(2):  # the answer of the first was lost
        asked.replace_lost(opened.number, lease, [participant(lease=lease)], written=at({1: (20, 29), 2: (1, 4)}))

    assert decided_batches(store) == [Batch(at({0: (5, 9), 1: (7, 29), 2: (1, 4)}), is_over=False)]


def test_they_outlive_their_rounds_and_are_merged_when_there_are_many(store: ZnodeStore) -> None:
    count = 2 * MERGED_EVERY
    for number in range(count):
        decide(store, number, at({0: (10 * number, 10 * number + 8), 1: (number, number)}))
    assert len(KAFKA_LEDGERS.round_numbers(store, PREFIX)) < count
    assert len(decided_batches(store)) == count

    merge_old(store, FOLDER, before=count, kept=20)

    found = decided_batches(store)
    assert len(found) == 1 + 10
    assert found[0] == Batch(at({0: (0, 10 * (count - 11) + 8), 1: (0, count - 11)}), is_over=True)
    assert found[1:] == [
        Batch(at({0: (10 * number, 10 * number + 8), 1: (number, number)}), is_over=True)
        for number in range(count - 10, count)
    ]
    merge_old(store, FOLDER, before=count, kept=20)
    assert decided_batches(store) == found


def test_what_may_not_be_over_is_not_merged_and_the_newest_never(store: ZnodeStore) -> None:
    for number in range(4):
        decide(store, number, at({0: (number, number)}))

    merge_old(store, FOLDER, before=3, kept=0)
    assert [batch.extents for batch in decided_batches(store)] == [at({0: (0, 1)}), at({0: (2, 2)}), at({0: (3, 3)})]
    merge_old(store, FOLDER, before=5, kept=0)
    assert [batch.extents for batch in decided_batches(store)] == [at({0: (0, 2)}), at({0: (3, 3)})]


def test_batch_writes_that_are_over_share_a_folder_whose_extents_are_merged(store: ZnodeStore) -> None:
    folder = f"{extents.BATCH_WRITES}/writes"
    for number in range(MERGED_EVERY + 1):
        written = at({number % 2: (number, number)})
        store.transact(lambda view, written=written: extents.put_over(view, folder, written))  # type: ignore[misc]

    assert [batch.extents for batch in decided_batches(store)] == [
        at({1: (1, MERGED_EVERY - 1), 0: (0, MERGED_EVERY)}),
    ]


def test_a_batch_write_that_is_over_leaves_where_its_rows_are(store: ZnodeStore) -> None:
    for name in ("first", "second"):
        prefix = f"writes.{name}"
        asked = Ledger(store, BatchRequest(prefix, name, "sink", name, 0, name))
        opened = asked.begin(lease=None, buckets=None)
        assert opened is not None
        asked.decide(opened, [participant()], written=at({0: (3, 5)}))
        ledger.complete(store, prefix, opened.number)
        batch_writes.forget(store, prefix)

    assert KAFKA_LEDGERS.prefixes(store) == []
    assert decided_batches(store) == [Batch(at({0: (3, 5)}), is_over=True)] * 2


def test_merged_ones_keep_the_partitions_that_were_written_to_last() -> None:
    many = {number: (number, number) for number in range(MAX_PARTITIONS)}

    found = merged([at({0: (0, 0)}, "gone"), at(many), at({5: (7, 9)}, "new")])

    assert len(found) == MAX_PARTITIONS
    assert set(at(many)) - set(found) == set(at({0: (0, 0)}))
    assert set(at({5: (7, 9)}, "new")) <= set(found)
    assert extents.decode("/x", extents.encode(found)) == found


def test_more_partitions_than_one_decision_names_are_refused_before_it(store: ZnodeStore) -> None:
    opened = steps(store).begin(lease=None, buckets=None)
    assert opened is not None
    with pytest.raises(UsageError, match="rows in more partitions than one decision can name"):
        steps(store).decide(opened, [], written=at(dict.fromkeys(range(MAX_PARTITIONS + 1), (0, 2**62))))

    most = at(dict.fromkeys(range(MAX_PARTITIONS), (2**62, 2**62)), "t" * 249)
    steps(store).decide(opened, [], written=most)
    assert decided_batches(store)[0].extents == most


def test_a_decided_batch_without_them_is_an_error_until_it_is_over(store: ZnodeStore) -> None:
    opened = decide(store, 0, {}, completes=False)

    with pytest.raises(UsageError, match="a sink of an older oncelog decided a batch"):
        decided_batches(store)
    ledger.complete(store, PREFIX, opened.number)
    assert decided_batches(store) == []


def test_who_reads_while_they_are_merged_reads_again() -> None:
    """In a store whose reads are not atomic."""

    class Merging(MemoryZnodeStore):
        is_due = False

        def get_many(self, paths: Iterable[str]) -> list[Znode | None]:
            if self.is_due:
                self.is_due = False
                merge_old(self, FOLDER, before=5, kept=0)
            return super().get_many(paths)

    store = Merging()
    metadata.ensure_format(store, None, None, create=True)
    for number in range(4):
        decide(store, number, at({0: (number, number)}))
    store.is_due = True

    assert [batch.extents for batch in decided_batches(store)] == [at({0: (0, 2)}), at({0: (3, 3)})]


@pytest.mark.parametrize(
    "data",
    [
        b"{}",
        b'{"version":1}',
        b'{"version":1,"topics":[["out","id",[[0,5,4]]]]}',
        b'{"version":1,"topics":[["out","id",[[0,5]]]]}',
        b'{"version":1,"topics":[["out",1,[[0,5,5]]]]}',
        b'{"version":1,"topics":{}}',
    ],
)
def test_a_damaged_znode_is_an_error_with_its_path(data: bytes) -> None:
    with pytest.raises(CorruptDataError) as error:
        extents.decode("/kafka/p/extents-1-1", data)
    assert error.value.fields["path"] == "/kafka/p/extents-1-1"
