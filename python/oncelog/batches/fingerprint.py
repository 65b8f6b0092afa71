"""The fingerprint of a micro-batch's input, for any kind of source. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence


def fingerprint(starts: Sequence[str | None], ends: Sequence[str | None]) -> str:
    """Identify the input of a micro-batch: equal for a true replay, different for anything else.

    Args:
        starts: where each source of the query starts, as Spark logged it; None if it had no offset before.
        ends: where each source ends, in the same order.

    Returns:
        SHA-256 of the canonical JSON of both, in hex.
    """
    canonical = {"starts": [_canonical(text) for text in starts], "ends": [_canonical(text) for text in ends]}
    return hashlib.sha256(json.dumps(canonical, separators=(",", ":")).encode()).hexdigest()


def _canonical(text: str | None) -> object:
    """The offset as JSON with sorted keys, so that only the meaning counts; anything that is not JSON stays as text."""
    if text is None:
        return None
    try:
        return {"json": json.dumps(json.loads(text), sort_keys=True)}
    except (ValueError, RecursionError):
        return {"text": text}
