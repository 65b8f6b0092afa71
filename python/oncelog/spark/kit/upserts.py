"""Upserts: a row takes the place of the one that has its key. What is the same for each sink that does it."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any

from oncelog.errors import InvalidOptionError, InvalidRecordError
from oncelog.spark.kit import values
from oncelog.spark.kit.options import Given, Option, Use

Columns = tuple[str, ...]


class Mode(StrEnum):
    """What happens to what the target has."""

    APPEND = "append"
    UPSERT = "upsert"

    def __repr__(self) -> str:
        return repr(self.value)


def _mode(text: str) -> Mode:
    return Mode(values.choice(*Mode)(text))


def columns(text: str) -> Columns:
    """Names of columns, separated by commas."""
    found = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    if not all(found):
        raise ValueError("names of columns, separated by commas, such as origin,flight")
    return found


def upsert_options(
    uses: frozenset[Use], mode_doc: str, keys_doc: str, parse: Callable[[str], Columns] = columns
) -> tuple[Option, ...]:
    """The rows of `mode` and `keyColumns`.

    Args:
        uses: of both.
        mode_doc, keys_doc: their meanings.
        parse: reads the names of columns.
    """
    return (
        Option("mode", uses, _mode, mode_doc, default=Mode.APPEND),
        Option("keyColumns", uses, parse, keys_doc),
    )


def mode_and_keys(given: Given, why: str) -> tuple[Mode, Columns]:
    """The mode, and the columns of the key, of which there are none if rows are only added.

    Args:
        why: the error for an upsert without them.

    Raises:
        InvalidOptionError: the one is given without the other.
    """
    mode: Mode = given.value("mode")
    if mode is Mode.UPSERT:
        given.require("keyColumns", why)
    elif given.has("keyColumns"):
        raise InvalidOptionError("the option is for mode=upsert", option="keyColumns", mode=mode)
    return mode, given.value("keyColumns") or ()


def key_twice(**about: Any) -> InvalidRecordError:
    """The error for rows of one batch with the same key."""
    return InvalidRecordError(
        "two rows of the batch have the same key, so it cannot be said which of them counts; keep one of them, as "
        "with dropDuplicates or a groupBy",
        **about,
    )


def key_without_value(**about: Any) -> InvalidRecordError:
    """The error for a row whose key is equal to nothing: each such row would be added, and none replaced."""
    return InvalidRecordError(
        "a row has no value in a key column, so no row can be found that it replaces; filter such rows out", **about
    )
