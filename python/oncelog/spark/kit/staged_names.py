"""The names of oncelog's own files and folders below the folder that a sink stages in. Spark's readers skip them.

_oncelog/staging/prefix=<p>/<attempt>/data/...            what Spark wrote of a batch that is under way
_oncelog/staging/prefix=<p>/<attempt>/manifest.json       which of it belongs to the batch
_oncelog/manifests/prefix=<p>/<batch>-<attempt>.json      the same file, once the batch is visible
_oncelog/marks/prefix=<p>/<query id>                      a mark that the query has decided batches
_oncelog/ledger                                           the ledger, unless znodes names another place
"""

from __future__ import annotations

import hashlib
from typing import Final

from oncelog.znodes import paths

OWN: Final = "_oncelog"
STAGING: Final = f"{OWN}/staging"
MANIFESTS: Final = f"{OWN}/manifests"
MARKS: Final = f"{OWN}/marks"
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


def mark(prefix: str, query_id: str) -> str:
    """The mark of a query."""
    return f"{MARKS}/{_of(prefix)}/{_short(query_id)}"


def _of(prefix: str) -> str:
    """The name of a prefix's folder."""
    return f"prefix={_short(prefix)}"


def _short(name: str) -> str:
    """A name as the name of a file. One that is too long is cut, and told by its hash."""
    encoded = paths.segment(name)
    if len(encoded) > _LONGEST:
        encoded = f"{encoded[: _LONGEST - 33]}-{hashlib.sha256(name.encode()).hexdigest()[:32]}"
    return encoded
