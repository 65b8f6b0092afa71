"""A kind of payload: JSON of one value, both ways, with what was written and read last."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from oncelog.znodes import paths

T = TypeVar("T")

Payload = dict[str, Any]

CACHE_BYTES = 2**20
"""Payloads each kind remembers: a client reads the same few znodes again and again, often as it wrote them itself."""


class Kind(Generic[T]):
    """One kind of payload. Remembers what it wrote and read, by its bytes: the values are immutable."""

    def __init__(
        self, to_json: Callable[[T], Payload], from_json: Callable[[Payload], T], names: Iterable[str]
    ) -> None:
        self._to_json = to_json
        self._from_json = from_json
        self._names = frozenset(names)
        self._known: dict[bytes, T] = {}
        self._known_bytes = 0

    def encode(self, value: T) -> bytes:
        """The bytes of a znode that holds `value`."""
        data = paths.encode(self._to_json(value))
        self._remember(data, value)
        return data

    def decode(self, path: str, data: bytes) -> T:
        """The value in the bytes of the znode at `path`.

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
        # A field that this release does not know would be lost with its next write.
        if not payload.keys() <= self._names | {"version"}:
            raise ValueError(f"unknown fields {sorted(payload.keys() - self._names)}")
        return self._from_json(payload)

    def _remember(self, data: bytes, value: T) -> None:
        if self._known_bytes + len(data) > CACHE_BYTES:
            self._known.clear()
            self._known_bytes = 0
        self._known[data] = value
        self._known_bytes += len(data)
