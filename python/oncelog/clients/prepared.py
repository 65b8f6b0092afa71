"""The token of a prepared transaction, and its text form."""

from __future__ import annotations

from dataclasses import dataclass

from oncelog.errors import UsageError
from oncelog.habits import Guided
from oncelog.signatures import checked
from oncelog.types import MAX_LONG, ProducerIdAndEpoch


@checked
@dataclass(frozen=True, slots=True)
class PreparedTransaction(Guided):
    """The token of a prepared transaction. The process that completes the transaction needs it (KIP-939).

    Use `str(token)` and `PreparedTransaction.parse` to store it in another database.
    """

    transactional_id: str
    producer: ProducerIdAndEpoch

    def __str__(self) -> str:
        return f"{self.producer.producer_id}:{self.producer.epoch}:{self.transactional_id}"

    @classmethod
    @checked
    def parse(cls, text: str) -> PreparedTransaction:
        """The token that `str(token)` wrote.

        Raises:
            UsageError: `text` is not a token.
        """
        producer_id, _, rest = text.partition(":")
        epoch, _, transactional_id = rest.partition(":")
        if not (_is_long(producer_id) and _is_long(epoch) and transactional_id):
            raise UsageError(
                "the token of a prepared transaction must be <producer id>:<epoch>:<transactional id>", token=text
            )
        return cls(transactional_id, ProducerIdAndEpoch(int(producer_id), int(epoch)))


def _is_long(digits: str) -> bool:
    return digits.isdecimal() and len(digits) <= len(str(MAX_LONG)) and int(digits) <= MAX_LONG
