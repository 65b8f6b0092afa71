"""A Kafka round: one attempt to write one micro-batch, from its open transactions to the last commit. Pure.

    open ──decide──> decided ──every participant ended──> complete
      └──abort──> aborted            │ lost: replaced by a rewritten one, before that is ended

The record of a decided round names every participant. So whoever finishes it, even a later run, sends the same commits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from oncelog.errors import ensure
from oncelog.types import Outcome
from oncelog.znodes import fields, paths
from oncelog_kafka.errors import RewriteMismatchError
from oncelog_kafka.protocol.participants import Participant

MAX_PARTICIPANTS = 3_000
"""A decision is one write: one znode of at most 512 kB names all participants of a batch, at about 130 bytes each."""


@dataclass(frozen=True, slots=True)
class KafkaRound:
    """One round.

    Attributes:
        outcome: open, commit (decided) or abort.
        batch_id, fingerprint, run_id: as in the ledger.
        nonce: unique to the attempt; its tokens contain it.
        lease: the number in the participants' transactional ids.
        buckets: number of content-hash participants; None if Spark's partitions are the participants.
        participants: of a decided round.
        is_complete: no commit is left to do.
        began_ms: when the round began, by its store's clock; None if an older oncelog wrote it. It tells whether
            brokers may have forgotten the tokens; the znode's own times would be lost when the ledger is copied.
    """

    outcome: Outcome
    batch_id: int
    fingerprint: str
    run_id: str
    nonce: str
    lease: int
    buckets: int | None = None
    participants: tuple[Participant, ...] = ()
    is_complete: bool = False
    began_ms: int | None = None

    @property
    def is_unfinished(self) -> bool:
        """Whether commits may still have to be sent."""
        return self.outcome is Outcome.COMMIT and not self.is_complete

    @property
    def lost(self) -> tuple[Participant, ...]:
        """Participants that must be rewritten."""
        return tuple(participant for participant in self.participants if participant.is_lost)


def naming(open_round: KafkaRound, participants: Sequence[Participant]) -> KafkaRound:
    """The round with the participants that its decision will name."""
    ensure(open_round.outcome is Outcome.OPEN, "only an open round is decided", outcome=open_round.outcome)
    numbers = [participant.partition for participant in participants]
    ensure(len(set(numbers)) == len(numbers), "a batch has one participant for a partition", partitions=numbers)
    return replace(open_round, participants=tuple(participants))


def completed(decided_round: KafkaRound) -> KafkaRound:
    """The round after its last commit."""
    ensure(decided_round.outcome is Outcome.COMMIT, "only a decided round completes", outcome=decided_round.outcome)
    return replace(decided_round, is_complete=True)


def with_lost(decided_round: KafkaRound, transactional_ids: Iterable[str]) -> KafkaRound:
    """The round with these participants marked as lost; from now on they do not count as committed."""
    lost = set(transactional_ids)
    marked = tuple(replace(p, is_lost=p.is_lost or p.transactional_id in lost) for p in decided_round.participants)
    return replace(decided_round, participants=marked)


def with_rewritten(decided_round: KafkaRound, rewritten: Iterable[Participant]) -> KafkaRound:
    """The round with its lost participants replaced by rewritten ones.

    Raises:
        RewriteMismatchError: they do not contain the rows that were decided; nothing is changed.
    """
    by_partition = {participant.partition: participant for participant in rewritten}
    lost = {participant.partition: participant for participant in decided_round.lost}
    _check_same_rows(lost, by_partition)
    replaced = tuple(by_partition.get(p.partition, p) if p.is_lost else p for p in decided_round.participants)
    return replace(decided_round, participants=replaced)


def _check_same_rows(lost: Mapping[int, Participant], rewritten: Mapping[int, Participant]) -> None:
    def content(participants: Mapping[int, Participant]) -> dict[int, tuple[int, int]]:
        return {number: (p.rows, p.content_hash) for number, p in sorted(participants.items())}

    if content(lost) != content(rewritten):
        raise RewriteMismatchError(
            "the replay of a decided batch contains other rows than were decided (rows and content hash by "
            "participant), so its plan is not deterministic; nothing was rewritten: write the missing rows by hand",
            decided=content(lost),
            replayed=content(rewritten),
        )


# In a znode -----------------------------------------------------------------------------------------------------------


def encode_round(found: KafkaRound) -> bytes:
    """A round as its znode's data."""
    return paths.encode(
        {
            "outcome": found.outcome.value,
            "batch_id": found.batch_id,
            "fingerprint": found.fingerprint,
            "run_id": found.run_id,
            "nonce": found.nonce,
            "lease": found.lease,
            "buckets": found.buckets,
            "participants": [_participant_to_json(participant) for participant in found.participants],
            "is_complete": found.is_complete,
            "began_ms": found.began_ms,
        }
    )


def decode_round(path: str, data: bytes) -> KafkaRound:
    """The round in a znode.

    Raises:
        CorruptDataError, UnsupportedFormatError: see `paths.decode`.
    """
    return paths.decode(path, data, _round_from_json)


def _round_from_json(payload: dict[str, Any]) -> KafkaRound:
    if {"began_ms", *payload} != {"version", *KafkaRound.__slots__}:
        raise ValueError("a round has other fields")
    return KafkaRound(
        outcome=Outcome(fields.text(payload["outcome"])),
        batch_id=fields.signed(payload["batch_id"]),
        fingerprint=fields.text(payload["fingerprint"]),
        run_id=fields.text(payload["run_id"]),
        nonce=fields.text(payload["nonce"]),
        lease=fields.number(payload["lease"]),
        buckets=fields.maybe(fields.number, payload["buckets"]),
        participants=fields.several(_participant_from_json, payload["participants"]),
        is_complete=fields.flag(payload["is_complete"]),
        began_ms=fields.maybe(fields.number, payload.get("began_ms")),
    )


def _participant_to_json(p: Participant) -> list[Any]:
    return [
        p.transactional_id,
        p.partition,
        p.producer_id,
        p.epoch,
        p.transaction_version,
        p.rows,
        p.content_hash,
        p.token_topic,
        int(p.is_lost),
    ]


def _participant_from_json(row: Any) -> Participant:
    transactional_id, partition, producer_id, epoch, version, rows, content_hash, token_topic, is_lost = fields.rows(
        row
    )
    return Participant(
        transactional_id=fields.text(transactional_id),
        partition=fields.number(partition),
        producer_id=fields.number(producer_id),
        epoch=fields.epoch(epoch),
        transaction_version=fields.number(version),
        rows=fields.number(rows),
        content_hash=fields.signed(content_hash),
        token_topic=fields.text(token_topic),
        is_lost=bool(fields.number(is_lost, most=1)),
    )
