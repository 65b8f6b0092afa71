"""Random ids, nonces and file names, from one source per process that a simulator can replace.

Everything that must be unique comes from here, so that a run with a seeded source is reproducible to the byte.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_source: Callable[[int], bytes] | None = None


def random_id() -> str:
    """A unique name: the 32 hex digits of a random UUID."""
    return uuid.uuid4().hex if _source is None else uuid.UUID(bytes=_source(16), version=4).hex


def random_bytes(count: int) -> bytes:
    """`count` random bytes."""
    return os.urandom(count) if _source is None else _source(count)


@contextmanager
def drawn_from(source: Callable[[int], bytes]) -> Iterator[None]:
    """Within the block, `source(count)` provides the process's random bytes."""
    global _source  # noqa: PLW0603 - one per process, like the system's
    before, _source = _source, source
    try:
        yield
    finally:
        _source = before
