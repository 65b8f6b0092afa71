"""What identifies the input of a micro-batch, whatever its sources are. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence


def fingerprint(starts: Sequence[str | None], ends: Sequence[str | None]) -> str:
    """What identifies the input of a micro-batch: equal for a true replay, different for anything else.

    Args:
        starts: where each source of the query starts, as Spark logged it; None where it had no offset before.
        ends: where each source ends, in the same order.

    Returns:
        SHA-256, in hex, over the canonical JSON of both.
    """
    canonical = {"starts": [_canonical(text) for text in starts], "ends": [_canonical(text) for text in ends]}
    return hashlib.sha256(json.dumps(canonical, separators=(",", ":")).encode()).hexdigest()


def _canonical(text: str | None) -> object:
    """The offset as a JSON value with sorted keys, so that only meaning counts; what is no JSON counts as text."""
    if text is None:
        return None
    try:
        return {"json": json.dumps(json.loads(text), sort_keys=True)}
    except (ValueError, RecursionError):
        return {"text": text}
