"""What the token of a participant says: the metadata of the offset that commits with the participant's rows. Pure.

A sink writes the same text beside the source's offsets in the user's group.
"""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TokenText:
    """Which attempt at which batch wrote an offset.

    Attributes:
        query_id, batch_id: of the batch.
        round: its number under the sink's prefix.
        nonce: of the attempt.
    """

    query_id: str
    batch_id: int
    round: int
    nonce: str

    def __str__(self) -> str:
        fields = {"query": self.query_id, "batch": self.batch_id, "round": self.round, "nonce": self.nonce}
        return json.dumps(fields, separators=(",", ":"))


def read(metadata: str) -> TokenText | None:
    """What an offset's metadata says; None if no sink wrote it."""
    try:
        fields = json.loads(metadata)
        return TokenText(str(fields["query"]), int(fields["batch"]), int(fields["round"]), str(fields["nonce"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
