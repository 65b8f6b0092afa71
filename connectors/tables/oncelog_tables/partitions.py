"""The values of partitions in the names of the folders that Spark's writer makes: ``column=value``."""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
"""Spark's name for rows without a value, or with an empty text."""


def values_of(name: str) -> dict[str, str | None]:
    """The values in the folders of a file's name, by column; None for no value, and for an empty text."""
    pairs = (folder.split("=", 1) for folder in name.split("/")[:-1])
    return {unquote(column): None if value == NO_VALUE else unquote(value) for column, value in pairs}
