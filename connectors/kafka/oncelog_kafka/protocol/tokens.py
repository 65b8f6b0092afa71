"""The text of a participant's token: the metadata of the offset that is committed with the participant's rows. Pure.

A sink writes the same text into the metadata of the source offsets in the user's group.
"""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TokenText:
    """Which attempt at which batch wrote an offset.

    Attributes:
        query_id, batch_id: of the batch.
        round: number of the round under the sink's prefix.
        nonce: unique to the attempt.
    """

    query_id: str
    batch_id: int
    round: int
    nonce: str

    def __str__(self) -> str:
        fields = {"query": self.query_id, "batch": self.batch_id, "round": self.round, "nonce": self.nonce}
        return json.dumps(fields, separators=(",", ":"))


def read(metadata: str) -> TokenText | None:
    """Parse an offset's metadata; None if no sink wrote it."""
    try:
        fields = json.loads(metadata)
        return TokenText(str(fields["query"]), int(fields["batch"]), int(fields["round"]), str(fields["nonce"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
