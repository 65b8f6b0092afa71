"""Manifests: texts that say what a batch consists of. A decision names one by its hash, so it fits into a znode."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection
from typing import Any, TypeVar

from oncelog.errors import CorruptDataError
from oncelog.spark.kit.spark_files import FoundFile
from oncelog.strict_json import without_duplicates
from oncelog.znodes import fields

T = TypeVar("T")


def hash_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def object_of(text: str, keys: Collection[str]) -> dict[str, Any]:
    """A JSON object that has exactly these keys; a ValueError otherwise."""
    found = json.loads(text, object_pairs_hook=without_duplicates)
    if not isinstance(found, dict) or set(found) != set(keys):
        raise ValueError("an object with other fields")
    return found


def files_of(found: Any) -> tuple[FoundFile, ...]:
    """The files that a manifest lists."""
    return tuple(FoundFile(fields.text(file["name"]), fields.signed(file["size"])) for file in found)


def decided(text: str, sha256: str, name: str, parse: Callable[[str], T]) -> T:
    """A manifest that was decided.

    Args:
        sha256: that the ledger has of it.
        name: of its file, for the error.
        parse: raises ValueError, TypeError or KeyError if it is not one.

    Raises:
        CorruptDataError: it is not what was decided.
    """
    try:
        if hash_of(text) != sha256:
            raise ValueError("the ledger has another hash of it")
        return parse(text)
    except (ValueError, TypeError, KeyError) as problem:
        raise CorruptDataError(
            "the manifest of a decided batch was changed, or is damaged", file=name, reason=str(problem)
        ) from problem
