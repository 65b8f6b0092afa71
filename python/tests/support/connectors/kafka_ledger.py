"""The ledger of a Kafka sink whose driver has no other sink: each step is run at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oncelog.batches.steps import OpenRound
from oncelog.batches.transaction import run_steps
from oncelog_kafka.ledger import ledger
from oncelog_kafka.protocol.kafka_rounds import KafkaRound
from oncelog_kafka.protocol.participants import Participant


class Ledger(ledger.Ledger):
    """See `oncelog_kafka.ledger.ledger.Ledger`."""

    def begin(self, *, lease: int | None, buckets: int | None) -> OpenRound[KafkaRound] | None:
        """Plan the batch. None if it was decided before."""
        found: list[OpenRound[KafkaRound] | None] = []
        run_steps(self.store, [lambda: self.plan(lease=lease, buckets=buckets, take=found.append)])
        return found[0]

    def decide(  # type: ignore[override]
        self, round_: OpenRound[KafkaRound], participants: Sequence[Participant], **more: Any
    ) -> KafkaRound:
        found: list[KafkaRound] = run_steps(
            self.store, [lambda: super(Ledger, self).decide(round_, participants, **more)]
        )
        return found[0]

    def replace_lost(  # type: ignore[override]
        self, number: int, lease: int, rewritten: Sequence[Participant], **more: Any
    ) -> KafkaRound:
        found: list[KafkaRound] = run_steps(
            self.store, [lambda: super(Ledger, self).replace_lost(number, lease, rewritten, **more)]
        )
        return found[0]
