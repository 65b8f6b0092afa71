"""The names of oncelog's own files and folders below the folder that a sink stages in. Spark's readers skip them.

_oncelog/staging/prefix=<p>/<attempt>/data/...            what Spark wrote of a batch that is under way
_oncelog/staging/prefix=<p>/<attempt>/manifest.json       which of it belongs to the batch
_oncelog/manifests/prefix=<p>/<batch>-<attempt>.json      the same file, once the batch is visible
_oncelog/ledger                                           the ledger, unless znodes names another place
"""

from __future__ import annotations

import hashlib
from typing import Final

from oncelog.znodes import paths

OWN: Final = "_oncelog"
STAGING: Final = f"{OWN}/staging"
MANIFESTS: Final = f"{OWN}/manifests"
LEDGER: Final = f"{OWN}/ledger"

_LONGEST: Final = 200
"""Bytes of a folder's name; file systems end at 255."""


def attempts(prefix: str) -> str:
    """The folder of all attempts of a prefix."""
    return f"{STAGING}/{_of(prefix)}"


def staging(prefix: str, attempt: str) -> str:
    """The folder of an attempt."""
    return f"{attempts(prefix)}/{attempt}"


def data(prefix: str, attempt: str) -> str:
    """The folder that Spark writes into."""
    return f"{staging(prefix, attempt)}/data"


def staged_manifest(prefix: str, attempt: str) -> str:
    return f"{staging(prefix, attempt)}/manifest.json"


def manifests(prefix: str) -> str:
    """The folder of a prefix's manifests."""
    return f"{MANIFESTS}/{_of(prefix)}"


def manifest(prefix: str, batch_id: int, attempt: str) -> str:
    """A batch's manifest. A prefix may have two batches of one number: after a takeover by another query."""
    return f"{manifests(prefix)}/{batch_id:010d}-{attempt}.json"


def _of(prefix: str) -> str:
    """The name of a prefix's folder. One that is too long is cut, and told by its hash."""
    encoded = paths.segment(prefix)
    if len(encoded) > _LONGEST:
        encoded = f"{encoded[: _LONGEST - 33]}-{hashlib.sha256(prefix.encode()).hexdigest()[:32]}"
    return f"prefix={encoded}"
