"""The ledger of Kafka batches: every step is one compare-and-set, and says who may go on."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

import oncelog
from oncelog import metadata
from oncelog.batches.rules import BatchRequest
from oncelog.batches.steps import REMEMBERED_ROUNDS, OpenRound
from oncelog.errors import (
    BatchRefusedError,
    CorruptDataError,
    RoundAbortedError,
    RunSupersededError,
    UnknownPrefixError,
    UsageError,
)
from oncelog.log.verification import Damage
from oncelog.ports import ZnodeStore
from oncelog.types import Outcome, TopicIdPartition
from oncelog.znodes import copying
from oncelog.znodes.memory import MemoryZnodeStore
from oncelog.znodes.walking import walk
from oncelog_kafka.errors import RewriteMismatchError
from oncelog_kafka.ledger import ledger
from oncelog_kafka.ledger.ledger import KAFKA_LEDGERS
from oncelog_kafka.operations import repair
from oncelog_kafka.protocol import extents
from oncelog_kafka.protocol.extents import Extent
from oncelog_kafka.protocol.kafka_rounds import MAX_PARTICIPANTS, KafkaRound
from oncelog_kafka.protocol.participants import Participant
from tests.support.connectors.kafka_ledger import Ledger
from tests.support.log.counted import CountedStore
from tests.support.log.logs import LogWorld


def request(batch_id: int = 0, *, run: str = "run-1", fingerprint: str = "", query: str = "query") -> BatchRequest:
    return BatchRequest("copier", query, "sink", run, batch_id, fingerprint or f"fp-{batch_id}")


def renamed(batch_id: int, run: str) -> BatchRequest:
    return replace(request(batch_id, run=run), prefix="renamed")


def participant(number: int, *, lease: int = 1, rows: int = 5, content: int = 17) -> Participant:
    return Participant(f"copier-{number}-{lease}.0.0", number, 100 + number, 0, 2, rows, content, "out")


def begin(
    store: ZnodeStore, asked: BatchRequest, lease: int | None = None, buckets: int | None = None
) -> OpenRound[KafkaRound]:
    opened = Ledger(store, asked).begin(lease=lease, buckets=buckets)
    assert opened is not None
    return opened


def record(store: ZnodeStore, number: int) -> KafkaRound:
    found = KAFKA_LEDGERS.read_round(store, "copier", number)
    assert found is not None
    return found


def test_behind_an_operators_abort_no_older_lease_is_used_again(store: ZnodeStore) -> None:
    opened = begin(store, request(0))
    Ledger(store, request(0)).decide(opened, [participant(0)])
    ledger.complete(store, "copier", opened.number)
    undecided = begin(store, request(1), lease=opened.record.lease)
    assert undecided.record.lease == opened.record.lease

    lease = ledger.abort_open(store, "copier")

    assert lease > undecided.number
    assert record(store, undecided.number).outcome is Outcome.ABORT
    with pytest.raises(RoundAbortedError):
        Ledger(store, request(1)).decide(undecided, [participant(0)])
    assert begin(store, request(1), lease=opened.record.lease).record.lease > lease


def test_a_decided_batch_is_known_with_its_participants_and_never_begun_again(store: ZnodeStore) -> None:
    opened = begin(store, request(), buckets=3)
    decided = Ledger(store, request()).decide(opened, [participant(0), participant(1)])

    assert record(store, opened.number) == decided
    assert (decided.outcome, decided.is_unfinished, decided.buckets) == (Outcome.COMMIT, True, 3)
    assert Ledger(store, request(run="run-2")).begin(lease=None, buckets=None) is None
    assert Ledger(store, request(run="run-2")).unfinished() == {opened.number: decided}


def test_a_run_has_the_lease_of_its_first_round_until_it_takes_a_new_one(store: ZnodeStore) -> None:
    leases = []
    lease: int | None = None
    for batch_id in range(3):
        opened = begin(store, request(batch_id), lease)
        Ledger(store, request(batch_id)).decide(opened, [])
        leases.append((opened.number, opened.record.lease))
        lease = opened.record.lease
    renewed = begin(store, request(3))

    assert leases == [(1, 1), (2, 1), (3, 1)]
    assert (renewed.number, renewed.record.lease) == (4, 4)


def test_a_new_run_aborts_the_undecided_round_of_the_old_one_which_ends_at_its_next_step(store: ZnodeStore) -> None:
    old = begin(store, request())
    begin(store, request(run="run-2"))

    assert record(store, old.number).outcome is Outcome.ABORT
    with pytest.raises(RunSupersededError):
        Ledger(store, request()).decide(old, [])
    with pytest.raises(RunSupersededError):
        Ledger(store, request()).begin(lease=old.record.lease, buckets=None)


def test_a_round_that_an_operator_aborted_is_not_decided(store: ZnodeStore) -> None:
    opened = begin(store, request())

    assert KAFKA_LEDGERS.abort(store, "copier", opened.number)
    with pytest.raises(RoundAbortedError):
        Ledger(store, request()).decide(opened, [])


def test_a_decided_round_is_never_aborted(store: ZnodeStore) -> None:
    """conformance: 52."""
    opened = begin(store, request())
    Ledger(store, request()).decide(opened, [participant(0)])

    assert not Ledger(store, request()).abort(opened)
    assert record(store, opened.number).outcome is Outcome.COMMIT


def test_deciding_twice_is_deciding_once(store: ZnodeStore) -> None:
    opened = begin(store, request())
    first = Ledger(store, request()).decide(opened, [participant(0)])

    assert Ledger(store, request()).decide(opened, [participant(0)]) == first


def test_a_decision_whose_last_check_fails_is_none(store: ZnodeStore) -> None:
    class Refusing:
        def ensure_recent(self) -> None:
            raise TimeoutError

        def recover(self, problem: Exception) -> bool:
            return False

    refuse = Refusing()
    asked = Ledger(store, request())
    opened = begin(store, request(), buckets=1)

    with pytest.raises(TimeoutError):
        asked.decide(opened, [participant(0)], check=refuse)
    assert record(store, opened.number).outcome is Outcome.OPEN
    decided = asked.decide(opened, [participant(0)])
    assert asked.decide(opened, [participant(0)], check=refuse) == decided  # nothing is left to be refused

    lease = asked.record_lost(opened.number, ["copier-0-1.0.0"])
    with pytest.raises(TimeoutError):
        asked.replace_lost(opened.number, lease, [participant(0, lease=lease)], check=refuse)
    assert record(store, opened.number).lost
    assert asked.replace_lost(opened.number, lease, [participant(0, lease=lease)]) == record(store, opened.number)


def test_a_batch_with_other_offsets_or_of_an_older_checkpoint_is_refused(store: ZnodeStore) -> None:
    for batch_id in range(2):
        Ledger(store, request(batch_id)).decide(begin(store, request(batch_id)), [])

    with pytest.raises(BatchRefusedError, match="other source offsets"):
        begin(store, request(1, run="run-2", fingerprint="other"))
    with pytest.raises(BatchRefusedError, match="later batch"):
        begin(store, request(0, run="run-2"))
    with pytest.raises(BatchRefusedError, match="another query"):
        begin(store, request(2, run="run-2", query="other"))


def test_a_complete_round_is_finished_and_forgotten_behind_the_last_one(store: ZnodeStore) -> None:
    asked = Ledger(store, request())
    for batch_id in range(20):
        asked = Ledger(store, request(batch_id))
        opened = begin(store, request(batch_id), 1)
        asked.decide(opened, [participant(0)])
        ledger.complete(store, "copier", opened.number)
        asked.forget_old_rounds()
        assert record(store, opened.number).is_complete, "the last decided round is never forgotten"

    remembered = KAFKA_LEDGERS.read_rounds(store, "copier")
    assert asked.unfinished() == {}
    assert max(remembered) == 20
    assert len(remembered) <= REMEMBERED_ROUNDS + 1


def test_an_unfinished_round_is_never_forgotten(store: ZnodeStore) -> None:
    for batch_id in range(20):
        opened = begin(store, request(batch_id), 1)
        Ledger(store, request(batch_id)).decide(opened, [participant(0)])
        Ledger(store, request(batch_id)).forget_old_rounds()

    assert len(Ledger(store, request()).unfinished()) == 20


# Lost participants


def lost_round(store: ZnodeStore) -> tuple[Ledger, int, int]:
    """A decided round of three participants of which two are lost; returns it with the lease of the rewrite."""
    asked = Ledger(store, request())
    opened = begin(store, request(), buckets=3)
    asked.decide(opened, [participant(0), participant(1), participant(2)])
    lease = asked.record_lost(opened.number, ["copier-0-1.0.0", "copier-2-1.0.0"])
    return asked, opened.number, lease


def test_lost_participants_are_marked_and_their_successors_get_a_lease_of_their_own(store: ZnodeStore) -> None:
    _, number, lease = lost_round(store)

    assert [one.partition for one in record(store, number).lost] == [0, 2]
    assert lease > number
    assert begin(store, request(1)).number > lease


def test_rewritten_participants_take_their_place_if_they_hold_the_same_rows(store: ZnodeStore) -> None:
    asked, number, lease = lost_round(store)

    replaced = asked.replace_lost(number, lease, [participant(0, lease=lease), participant(2, lease=lease)])

    assert replaced.lost == ()
    assert [one.transactional_id for one in replaced.participants] == [
        f"copier-0-{lease}.0.0",
        "copier-1-1.0.0",
        f"copier-2-{lease}.0.0",
    ]
    assert record(store, number) == replaced


@pytest.mark.parametrize(
    "rewritten",
    [
        [participant(0), participant(2, rows=6)],
        [participant(0), participant(2, content=18)],
        [participant(0)],
        [participant(0), participant(1), participant(2)],
        [],
    ],
)
def test_a_rewrite_with_other_rows_changes_nothing(store: ZnodeStore, rewritten: list[Participant]) -> None:
    asked, number, lease = lost_round(store)
    before = record(store, number)

    with pytest.raises(RewriteMismatchError) as error:
        asked.replace_lost(number, lease, rewritten)

    assert error.value.fields["decided"] == {0: (5, 17), 2: (5, 17)}
    assert record(store, number) == before


def test_of_two_that_rewrite_only_the_newer_one_may_replace(store: ZnodeStore) -> None:
    asked, number, lease = lost_round(store)
    newer = Ledger(store, request(run="run-2"))
    assert newer.begin(lease=None, buckets=3) is None
    newer_lease = newer.record_lost(number, [])

    with pytest.raises(RunSupersededError):
        asked.replace_lost(number, lease, [participant(0), participant(2)])
    newer.replace_lost(number, newer_lease, [participant(0), participant(2)])


def test_of_two_leases_for_one_rewrite_the_second_counts(store: ZnodeStore) -> None:
    asked, number, lease = lost_round(store)
    second = asked.record_lost(number, [])

    with pytest.raises(RoundAbortedError):
        asked.replace_lost(number, lease, [participant(0, lease=lease), participant(2, lease=lease)])
    assert len(record(store, number).lost) == 2
    assert asked.replace_lost(number, second, [participant(0, lease=second), participant(2, lease=second)]).lost == ()


def test_what_an_operator_gave_up_is_not_replaced_any_more(store: ZnodeStore) -> None:
    asked, number, lease = lost_round(store)
    ledger.complete(store, request().prefix, number)
    before = record(store, number)

    with pytest.raises(RoundAbortedError):
        asked.replace_lost(number, lease, [participant(0), participant(2)])
    assert record(store, number) == before


def test_what_an_operator_gave_up_does_not_count_as_committed(store: ZnodeStore) -> None:
    asked = Ledger(store, request())
    opened = begin(store, request(), 1)
    asked.decide(opened, [participant(0), participant(1), participant(2)])

    ledger.complete(store, request().prefix, opened.number, [participant(1).transactional_id])

    found = record(store, opened.number)
    assert found.is_complete
    assert [one.partition for one in found.lost] == [1]
    assert [one.partition for one in repair._recorded(store).complete] == [0, 2]


def test_the_age_of_a_decision_counts_from_its_round_whatever_is_recorded_of_it_later(tmp_path: Path) -> None:
    """By it a token that is not there proves something, or nothing: brokers forget tokens."""
    world = LogWorld(tmp_path)
    store, asked = world.store(), Ledger(world.store(), request())
    opened = begin(store, request(), buckets=3)
    asked.decide(opened, [participant(0), participant(1)])
    world.time.pass_ms(5_000)
    lease = asked.record_lost(opened.number, ["copier-0-1.0.0"])
    world.time.pass_ms(3_000)
    asked.replace_lost(opened.number, lease, [participant(0, lease=lease)])

    assert ledger.decision_age_ms(store, record(store, opened.number)) == 8_000


@pytest.mark.parametrize(("ahead_ms", "age_ms"), [(0, 5_000), (3_600_000, 3_605_000), (-6_000, None)])
def test_the_age_of_a_decision_is_the_same_in_a_copy_of_the_ledger_or_not_known(
    tmp_path: Path, ahead_ms: int, age_ms: int | None
) -> None:
    """In a copy all znodes are new; its store has a clock of its own, by which no round is younger than it is."""
    world = LogWorld(tmp_path)
    opened = begin(world.store(), request())
    Ledger(world.store(), request()).decide(opened, [participant(0)])
    world.time.pass_ms(5_000)
    copied = MemoryZnodeStore(now_ms=lambda: world.time.now_ms() + ahead_ms, clock=world.time)
    copying.copy(world.store(), copied)

    assert ledger.decision_age_ms(copied, record(copied, opened.number)) == age_ms


def test_of_a_round_that_an_older_oncelog_wrote_nobody_knows_the_age(store: ZnodeStore) -> None:
    opened = begin(store, request())
    Ledger(store, request()).decide(opened, [participant(0)])
    path = KAFKA_LEDGERS.round_path("copier", opened.number)
    found = store.get(path)
    assert found is not None
    written = json.loads(found.data)
    del written["began_ms"]
    store.transact(lambda view: view.set(path, json.dumps(written).encode()))

    assert record(store, opened.number).is_unfinished
    assert ledger.decision_age_ms(store, record(store, opened.number)) is None


# Bad input


def test_a_batch_of_more_participants_than_one_write_holds_is_refused(store: ZnodeStore) -> None:
    opened = begin(store, request())
    wide = [participant(number) for number in range(MAX_PARTICIPANTS + 1)]

    with pytest.raises(UsageError, match="coalesce"):
        Ledger(store, request()).decide(opened, wide)
    Ledger(store, request()).decide(opened, wide[:-1])


def test_a_prefix_without_a_ledger_is_an_error_that_names_those_there_are(store: ZnodeStore) -> None:
    begin(store, request())

    with pytest.raises(UnknownPrefixError) as error:
        KAFKA_LEDGERS.require(store, "copeir")
    assert error.value.fields["known"] == ["copier"]


@pytest.mark.parametrize("prefix", ["", "name\udce9", "p" * 1025])
def test_what_no_sink_can_have_as_prefix_is_no_prefix(store: ZnodeStore, prefix: str) -> None:
    with pytest.raises(UsageError, match="prefix"):
        KAFKA_LEDGERS.require(store, prefix)


def test_a_foreign_znode_is_named_and_not_guessed_at(store: ZnodeStore) -> None:
    begin(store, request())
    path = KAFKA_LEDGERS.round_path("copier", 1)
    store.transact(lambda view: view.set(path, b'{"version":1,"outcome":"maybe"}'))

    with pytest.raises(CorruptDataError) as error:
        Ledger(store, request()).unfinished()
    assert error.value.fields["path"] == path


def test_a_logs_verification_looks_at_the_ledgers_that_share_its_store(tmp_path: Path) -> None:
    with oncelog.open(tmp_path / "log") as log:
        begin(log.services.store, request())
        whole = log.admin.verify()
        path = KAFKA_LEDGERS.round_path("copier", 1)
        log.services.store.transact(lambda view: view.set(path, b'{"version":1,"outcome":"maybe"}'))
        (problem,) = log.admin.verify().problems

    assert whole.problems == ()
    assert (problem.damage, problem.place) == (Damage.CORRUPT_ZNODE, path)


def test_a_ledger_may_share_its_store_with_a_log(tmp_path: Path) -> None:
    with oncelog.open(tmp_path / "log") as log:
        log.create_topic("flights")
    store = metadata.open_metadata(str(tmp_path / "log"))
    begin(store, request())
    store.close()

    with oncelog.open(tmp_path / "log") as log:
        assert [found.topic for found in log.admin.list_topics()] == ["flights"]
        assert log.admin.list_prefixes() == []
        assert KAFKA_LEDGERS.prefixes(log.services.store) == ["copier"]


def test_a_changed_name_right_behind_a_decided_batch_is_refused_until_the_former_one_has_noted_it(
    store: ZnodeStore,
) -> None:
    """conformance: 57, 58."""
    Ledger(store, request()).decide(begin(store, request()), [])
    with pytest.raises(BatchRefusedError, match=r"former_prefixes=\['copier'\]"):
        begin(store, renamed(0, "run-2"))
    assert KAFKA_LEDGERS.prefixes(store) == ["copier"]

    assert Ledger(store, request(run="run-3")).begin(lease=None, buckets=None) is None
    begin(store, renamed(1, "run-4"))


def test_a_changed_name_ends_the_round_of_the_former_one(store: ZnodeStore) -> None:
    """conformance: 57, 62."""
    left = begin(store, request())
    opened = begin(store, renamed(0, "run-2"))
    assert record(store, left.number).outcome is Outcome.ABORT
    with pytest.raises(RunSupersededError):
        Ledger(store, request()).decide(left, [])

    Ledger(store, renamed(0, "run-2")).decide(opened, [])


def test_what_a_batch_costs_does_not_depend_on_the_number_of_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extents, "KEPT", 2 * REMEMBERED_ROUNDS)
    monkeypatch.setattr(extents, "MERGED_EVERY", REMEMBERED_ROUNDS)
    store = CountedStore(metadata.open_metadata("memory"))

    def write(batch_id: int) -> None:
        steps = Ledger(store, request(batch_id))
        opened = begin(store, request(batch_id), lease=1)
        steps.decide(opened, [participant(0)], written={TopicIdPartition("out", "id", 0): Extent(batch_id, batch_id)})
        ledger.complete(store, "copier", opened.number)
        steps.forget_old_rounds()
        steps.merge_old_extents(opened.number)

    def write_some() -> None:
        for _ in range(8 * REMEMBERED_ROUNDS):
            write(next(numbers))

    numbers = count()
    write_some()
    before, there = store.cost_of(write_some), len(list(walk(store, "/")))

    assert store.cost_of(write_some) == before
    assert len(list(walk(store, "/"))) == there
