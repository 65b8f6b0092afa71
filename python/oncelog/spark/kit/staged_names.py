"""The names of oncelog's own files and folders below the folder that a sink stages in. Spark's readers skip them.

_oncelog/staging/<attempt>/data/...            what Spark wrote of a batch that is under way
_oncelog/staging/<attempt>/manifest.json       which of it belongs to the batch
_oncelog/manifests/prefix=<p>/<batch>-<attempt>.json     the same file, once the batch is visible
_oncelog/ledger                                the ledger, unless znodes names another place
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


def staging(attempt: str) -> str:
    """The folder of an attempt."""
    return f"{STAGING}/{attempt}"


def data(attempt: str) -> str:
    """The folder that Spark writes into."""
    return f"{staging(attempt)}/data"


def staged_manifest(attempt: str) -> str:
    return f"{staging(attempt)}/manifest.json"


def manifests(prefix: str) -> str:
    """The folder of a prefix's manifests. A name that is too long for a folder is cut, and told by its hash."""
    encoded = paths.segment(prefix)
    if len(encoded) > _LONGEST:
        encoded = f"{encoded[: _LONGEST - 33]}-{hashlib.sha256(prefix.encode()).hexdigest()[:32]}"
    return f"{MANIFESTS}/prefix={encoded}"


def manifest(prefix: str, batch_id: int, attempt: str) -> str:
    """A batch's manifest. A prefix may have two batches of one number: after a takeover by another query."""
    return f"{manifests(prefix)}/{batch_id:010d}-{attempt}.json"
