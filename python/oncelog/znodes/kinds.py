"""A kind of payload: encodes and decodes one type of value as JSON, with a cache."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from oncelog.znodes import paths

T = TypeVar("T")

Payload = dict[str, Any]

CACHE_BYTES = 2**20
"""Payloads that each kind caches. Clients read the same few znodes repeatedly, often as they wrote them themselves."""


class Kind(Generic[T]):
    """One kind of payload. Caches the values that it encoded and decoded, by their bytes; values are immutable."""

    def __init__(
        self, to_json: Callable[[T], Payload], from_json: Callable[[Payload], T], names: Iterable[str]
    ) -> None:
        self._to_json = to_json
        self._from_json = from_json
        self._names = frozenset(names)
        self._known: dict[bytes, T] = {}
        self._known_bytes = 0

    def encode(self, value: T) -> bytes:
        """The payload for `value`."""
        data = paths.encode(self._to_json(value))
        self._remember(data, value)
        return data

    def decode(self, path: str, data: bytes) -> T:
        """The value in the payload of the znode at `path`.

        Raises:
            CorruptDataError, UnsupportedFormatError: see `paths.decode`.
        """
        known = self._known.get(data)
        if known is not None:
            return known
        value = paths.decode(path, data, self._built)
        self._remember(data, value)
        return value

    def _built(self, payload: Payload) -> T:
        # A field that this release does not know would be lost by the next write.
        if not payload.keys() <= self._names | {"version"}:
            raise ValueError(f"unknown fields {sorted(payload.keys() - self._names)}")
        return self._from_json(payload)

    def _remember(self, data: bytes, value: T) -> None:
        if self._known_bytes + len(data) > CACHE_BYTES:
            self._known.clear()
            self._known_bytes = 0
        self._known[data] = value
        self._known_bytes += len(data)
