"""Methods that only one thread at a time may call."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, Protocol, TypeVar

from oncelog.errors import IllegalStateTransitionError
from oncelog.signatures import checked

Call = TypeVar("Call", bound=Callable[..., Any])


class HasLock(Protocol):
    """An object with exclusive methods. The lock must be reentrant."""

    _lock: threading.RLock


def exclusive(call: Call) -> Call:
    """Decorates a method of a consumer that reads or changes its positions; it is `checked`, too.

    A second call of the same thread, as from a signal handler, may run.

    Raises:
        IllegalStateTransitionError: (at the call) another thread is in such a method of the same consumer.
    """

    @wraps(call)
    def alone(self: HasLock, *given: Any, **named: Any) -> Any:
        if not self._lock.acquire(blocking=False):
            raise IllegalStateTransitionError(
                "another thread is using this consumer; give each thread a consumer of its own", call=call.__name__
            )
        try:
            return call(self, *given, **named)
        finally:
            self._lock.release()

    return checked(alone)  # type: ignore[return-value]
