"""The simulation finds bugs: each of these is planted in the product, and a small number of seeds must meet it.

A bug that is no longer found means that some client, fault or law has lost its teeth.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from oncelog.batches import rules
from oncelog.batches.steps import BatchSteps
from oncelog.clients.consumer import Consumer
from oncelog.coordinator import settler
from oncelog.coordinator.rounds import Round
from oncelog.coordinator.transactions import TransactionCoordinator
from oncelog.log import partition_log, partition_reads, snapshot, topics
from oncelog.log.segment import SegmentWriter
from oncelog.ports import ANY_VERSION, Check, Op, Set, ZnodeStore, ZnodeView
from oncelog.protocol import coordinator_core, sequencing, visibility
from oncelog.protocol.partition import Marker
from oncelog.spark.writing import write_all
from oncelog.types import IsolationLevel
from oncelog.znodes import paths, payloads
from oncelog.znodes.view import BufferedView
from simulation import sinks, swarm, znodes
from simulation.swarm import run
from tests.support.simulation.planted import assert_found, named

pytestmark = pytest.mark.sampled("planted bugs")


SEEDS_MAX = 400


def _without_the_epoch_check(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(coordinator_core, "check_identity", lambda metadata, given, event: False)


def _with_an_lso_one_too_high(patch: pytest.MonkeyPatch) -> None:
    sound = visibility.plan

    def plan(zxid: int, partitions: Any, owners: Any) -> Any:
        found = sound(zxid, partitions, owners)
        ends = {p: min(end + 1, partitions[p].log_end) for p, end in found.ends.items()}
        return replace(found, ends=ends)

    patch.setattr(visibility, "plan", plan)


def _without_fsync_before_the_transact(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SegmentWriter, "_finish_file", lambda self: setattr(self, "_current", None))


def _with_a_settler_that_has_no_bound(patch: pytest.MonkeyPatch) -> None:
    """A whole transaction must fall between two reads of a settler; so the reads are far apart here."""

    def take(store: Any, partitions: Any, *, snapshot_zxid: int, with_neighbours: bool) -> Any:
        return snapshot.take(store, partitions, snapshot_zxid=2**60, with_neighbours=with_neighbours)

    nature = swarm.nature_of
    patch.setattr(settler, "snapshot", SimpleNamespace(take=take, commits_zxid=snapshot.commits_zxid))
    patch.setattr(znodes, "APART", 0.9)
    patch.setattr(swarm, "nature_of", lambda chance: replace(nature(chance), reads_are_atomic=False, slow=0.2))


def _with_markers_that_name_no_aborted_pairs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(partition_log, "Marker", lambda outcome, first, aborted: Marker(outcome, first, ()))


def _with_a_plan_that_is_a_plain_lso(patch: pytest.MonkeyPatch) -> None:
    """Each partition by itself: what a foreign open transaction holds back in one is shown in the others."""
    sound = visibility.plan

    def plan(zxid: int, partitions: Any, owners: Any) -> Any:
        found = sound(zxid, partitions, owners)
        ends = {p: sound(zxid, {p: state}, owners).ends[p] for p, state in partitions.items()}
        return replace(found, ends=ends)

    patch.setattr(visibility, "plan", plan)


def _with_writes_that_compare_nothing(patch: pytest.MonkeyPatch) -> None:
    """Invariant I3: a step's writes go ahead, whatever became of what they were derived from."""
    sound = BufferedView.ops

    def ops(self: BufferedView) -> list[Op]:
        unchecked = (op for op in sound(self) if not isinstance(op, Check))
        return [replace(op, version=ANY_VERSION) if isinstance(op, Set) else op for op in unchecked]

    patch.setattr(BufferedView, "ops", ops)


def _without_duplicate_detection(patch: pytest.MonkeyPatch) -> None:
    """A retry of an append that had won appends again."""
    patch.setattr(sequencing, "check_append", lambda *arguments, **named: None)


def _with_a_driver_that_never_finds_itself_superseded(patch: pytest.MonkeyPatch) -> None:
    def check(self: BatchSteps[Any], view: Any, number: int) -> Any:
        prefix = self.request.prefix
        return self.kind.read(view, prefix), self.kind.read_round(view, prefix, number)

    patch.setattr(BatchSteps, "check_open", check)


def _with_a_replay_that_writes_again(patch: pytest.MonkeyPatch) -> None:
    def plan(ledger: Any, request: Any) -> Any:
        return sound(ledger if ledger is None else replace(ledger, last=None), request)

    sound = rules.plan_batch
    patch.setattr(rules, "plan_batch", plan)


def _with_a_deletion_that_marks_the_topic_alone(patch: pytest.MonkeyPatch) -> None:
    """Whoever knows a partition by its id goes on writing to it, until its znodes are gone."""

    def delete(store: ZnodeStore, name: str) -> None:
        def mark(view: ZnodeView) -> None:
            topic = partition_reads.read_topic(view, name)
            view.set(paths.topic(name), payloads.encode_topic(replace(topic, is_deleted=True)))

        store.transact(mark)

    patch.setattr(topics, "delete", delete)
    patch.setattr(swarm, "DELETIONS", 1.0)


def _with_a_group_that_a_batch_does_not_move(patch: pytest.MonkeyPatch) -> None:
    """What a query finds that has lost its checkpoint is where it stood long ago, or nothing."""
    patch.setattr(Round, "stage_offsets", lambda self, offsets: None)
    patch.setattr(swarm, "LOSSES", (0.5,))


def _with_an_init_that_keeps_no_prepared_transaction(patch: pytest.MonkeyPatch) -> None:
    """What was promised to another database is aborted."""
    sound = TransactionCoordinator.init_producer_id

    def init(self: TransactionCoordinator, transactional_id: str, **more: Any) -> Any:
        return sound(self, transactional_id, **{**more, "keep_prepared": False})

    patch.setattr(TransactionCoordinator, "init_producer_id", init)


def _with_tasks_that_write_to_the_first_partition_only(patch: pytest.MonkeyPatch) -> None:

    def write(task: Any, batches: Iterable[pa.RecordBatch], files: Any) -> Any:
        def moved() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                at = batch.schema.get_field_index("partition")
                first = pa.array([0] * batch.num_rows, batch.schema.field(at).type)
                yield batch.set_column(at, batch.schema.field(at), first)

        return write_all(task, moved(), files)

    patch.setattr(sinks, "write_all", write)


def _with_readers_of_uncommitted_records_that_find_none(patch: pytest.MonkeyPatch) -> None:
    sound = Consumer.poll

    def poll(self: Consumer, *arguments: Any, **more: Any) -> Any:
        records = sound(self, *arguments, **more)
        return [] if self._isolation is IsolationLevel.READ_UNCOMMITTED else records

    patch.setattr(Consumer, "poll", poll)


def _with_a_consumer_that_commits_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Consumer, "commit", lambda self, offsets=None: None)


PLANTS = named(
    _without_the_epoch_check,
    _with_an_lso_one_too_high,
    _without_fsync_before_the_transact,
    _with_a_settler_that_has_no_bound,
    _with_markers_that_name_no_aborted_pairs,
    _with_a_plan_that_is_a_plain_lso,
    _with_writes_that_compare_nothing,
    _without_duplicate_detection,
    _with_a_driver_that_never_finds_itself_superseded,
    _with_a_replay_that_writes_again,
    _with_a_deletion_that_marks_the_topic_alone,
    _with_a_group_that_a_batch_does_not_move,
    _with_an_init_that_keeps_no_prepared_transaction,
    _with_tasks_that_write_to_the_first_partition_only,
    _with_readers_of_uncommitted_records_that_find_none,
    _with_a_consumer_that_commits_nothing,
)


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_bug_is_found(plant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTS[plant](monkeypatch)

    assert_found(run, SEEDS_MAX)
