"""How long a text may be that goes into a field: a store refuses a document with a term that is too long.

A `keyword` makes one term of a text. What a `text` field makes of it is up to its analyzer: most cut tokens at 255
characters, and some do not cut at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

LONGEST_TERM: Final = 32_766
"""Bytes."""

_LONGER_IF_CHANGED: Final = 3
"""How many times as long a normalizer or a filter can make a text, as by changing its case."""

_BYTES_OF_A_SIGN: Final = 4

_ONE_TERM: Final = ("keyword", "wildcard")
"""Types of fields."""

_AS_ANALYZED: Final = ("text", "match_only_text")
"""Types of fields that make terms of nothing but tokens; others put some together."""

_UNCUT_ANALYZERS: Final = ("keyword", "pattern")
"""Of those that come with the stores."""

_CUTTING_TOKENIZERS: Final = ("standard", "whitespace", "letter", "lowercase", "classic", "uax_url_email", "thai")
"""Those whose tokens have at most 255 characters, unless their settings say otherwise."""

Settings = Mapping[str, str]
"""Of an index: flat, such as ``index.uuid``."""


def most_bytes(field: Mapping[str, Any], settings: Settings) -> int | None:
    """How many bytes of UTF-8 a text may have; None for any number.

    Args:
        field: of the mapping, of a type that takes texts.
    """
    if field["type"] in _ONE_TERM:
        most = LONGEST_TERM // _LONGER_IF_CHANGED if field.get("normalizer") else LONGEST_TERM
        kept_signs = field.get("ignore_above")
        return None if kept_signs is not None and int(kept_signs) * _BYTES_OF_A_SIGN <= most else most
    analyzer = field.get("analyzer", "default")
    if field.get("index") in (False, "false") or _cuts(analyzer, settings):
        return None
    is_whole = analyzer == "keyword" and field["type"] in _AS_ANALYZED
    return LONGEST_TERM if is_whole else LONGEST_TERM // _LONGER_IF_CHANGED


def _cuts(analyzer: str, settings: Settings) -> bool:
    """Whether no token of an analyzer can be too long."""
    own = _below(settings, f"index.analysis.analyzer.{analyzer}.")
    if not own:
        return analyzer not in _UNCUT_ANALYZERS
    kind = own.get("type", "custom")
    if kind == "custom":
        return _is_cutting_tokenizer(own.get("tokenizer", ""), settings)
    return kind not in _UNCUT_ANALYZERS and not _has_lengths(own)


def _is_cutting_tokenizer(tokenizer: str, settings: Settings) -> bool:
    own = _below(settings, f"index.analysis.tokenizer.{tokenizer}.")
    return own.get("type", tokenizer) in _CUTTING_TOKENIZERS and not _has_lengths(own)


def _has_lengths(own: Mapping[str, str]) -> bool:
    return any(name.startswith("max_") for name in own)


def _below(settings: Settings, start: str) -> dict[str, str]:
    return {name.removeprefix(start): value for name, value in settings.items() if name.startswith(start)}
