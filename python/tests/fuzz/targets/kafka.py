"""What the Kafka connector reads of others: its ledger, the sink's options, Kafka's offsets, transactional ids."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from random import Random

from oncelog.types import Outcome
from oncelog_kafka.options import sink_options as options
from oncelog_kafka.protocol import kafka_rounds
from oncelog_kafka.protocol.kafka_rounds import KafkaRound
from oncelog_kafka.protocol.participants import Participant, ParticipantId
from oncelog_kafka.sinks import source_offsets
from tests.fuzz.mutators import Pairs, mutated_json, mutated_text, parsed
from tests.fuzz.target import Target, Verdict, expect
from tests.fuzz.targets.options import Options
from tests.fuzz.targets.znode_payloads import Payload, canonical

PARTICIPANTS = (
    Participant("copier-0-1.0.0", 0, 100, 3, 2, 5, -(2**63), "out"),
    Participant("größe-1-1.0.2", 1, 2**40, 0, 1, 0, 0, "out", is_lost=True),
)
ROUNDS = [
    KafkaRound(Outcome.OPEN, 0, "fp", "run", "nonce", 1),
    KafkaRound(Outcome.COMMIT, 7, "fp", "run", "nonce", 4, 2, PARTICIPANTS, is_complete=True, began_ms=2**40),
]
BEFORE_BEGAN_MS = b"""{"version":1,"outcome":"commit","batch_id":7,"fingerprint":"fp","run_id":"run","nonce":"nonce",\
"lease":4,"buckets":2,"participants":[["copier-0-1.0.0",0,100,3,2,5,-9,"out",0]],"is_complete":false}"""
"""As it was written when a round did not say yet when it began."""


class Round(Payload):
    """A round of the ledger. Oracle: that of `Payload`."""

    def __init__(self) -> None:
        super().__init__("kafka_round")

    def prepare(self) -> None:
        self.encode, self.decode = kafka_rounds.encode_round, kafka_rounds.decode_round
        self.written = [*(self.encode(value) for value in ROUNDS), BEFORE_BEGAN_MS]
        self.trees = [parsed(data) for data in self.written]


class KafkaOffsets(Target):
    """What a Kafka source logged: the same offsets, or None for what is none of Kafka's.

    Oracle: the same JSON, written again; numbers as Kafka writes them, and no partition twice.
    """

    name = "kafka-offsets"

    def prepare(self) -> None:
        self.written = [b"{}", b'{"flights":{"0":5,"10":9223372036854775807},"b":{"1":0}}']
        self.trees = [parsed(text) for text in self.written]

    def valid(self) -> Iterable[bytes]:
        return self.written

    def make(self, chance: Random) -> bytes:
        return mutated_json(chance, chance.choice(self.written), self.trees)

    def check(self, data: bytes) -> Verdict:
        text = data.decode("utf-8", "replace")
        found = source_offsets.parse_offsets(text)
        if found is None:
            return Verdict.REFUSED
        again = json.dumps(source_offsets.by_topic(found))
        named = Pairs((topic, partitions) for topic, partitions in parsed(text) if partitions)
        expect(canonical(named) == canonical(parsed(again)), "offsets were converted", again=again)
        expect(all(0 <= offset < 2**63 for offset in found.values()), "an offset out of bounds")
        return Verdict.CORRECT


class TransactionalIds(Target):
    """Any transactional id that a broker lists: a participant's of which the same id is made, or None."""

    name = "transactional-id"
    weight = 0.5

    def prepare(self) -> None:
        self.ids = ["copier-0-1.0.0", "a-b-12-345-6.7.8", "größe-1-1.0.2"]

    def valid(self) -> Iterable[bytes]:
        return map(str.encode, self.ids)

    def make(self, chance: Random) -> bytes:
        return mutated_text(chance, chance.choice(self.ids), self.ids).encode("utf-8", "surrogatepass")

    def check(self, data: bytes) -> Verdict:
        text = data.decode("utf-8", "surrogatepass")
        found = ParticipantId.parse(text)
        if found is None:
            return Verdict.REFUSED
        numbers = [str(int(number)) for number in text[len(found.prefix) + 1 :].replace("-", ".").split(".")]
        again = str(found)[len(found.prefix) + 1 :].replace("-", ".").split(".")
        expect(text.startswith(found.prefix) and numbers == again, "another id is made of its parts", again=str(found))
        return Verdict.CORRECT


SINKS = [
    {"kafka.bootstrap.servers": "a:1,b:2", "znodes": "/l", "topic": "t"},
    {
        "kafka.bootstrap.servers": "a:1",
        "znodes": "zk://h/l",
        "transactionalIdPrefix": "copier",
        "groupId": "g",
        "sinkName": "s",
        "takeover": "q",
        "transactionTimeoutMs": 60_000,
        "onTimedOutParticipant": "rewrite",
        "participants": "8",
        "kafka.acks": "all",
        "kafka.enable.idempotence": "true",
        "kafka.sasl.jaas.config": 'x required username="u" password="p\\"w";',
        "admin.request_timeout_ms": "5000",
    },
]

TARGETS: dict[str, Callable[[], Target]] = {
    "payload-kafka-round": Round,
    "kafka-sink-options": lambda: Options("kafka-sink-options", SINKS, options.parse),  # type: ignore[arg-type]
    KafkaOffsets.name: KafkaOffsets,
    TransactionalIds.name: TransactionalIds,
}
