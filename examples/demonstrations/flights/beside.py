"""Work in a thread beside a block."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def beside(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Have `work` done in a thread of its own during the block. It gets an event that is set when the block is over."""
    is_over = threading.Event()
    thread = threading.Thread(target=work, args=(is_over,), name=work.__qualname__)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
