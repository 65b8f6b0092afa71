"""Metrics of what a process asks of znode stores: of clients, and of queries in their driver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from oncelog.metrics import catalogue as c
from oncelog.metrics.exposition import CollectorRegistry, Instruments
from oncelog.signatures import checked
from oncelog.znodes import metering

__all__ = ["observe"]


@checked
def observe(registry: CollectorRegistry) -> AbstractContextManager[None]:
    """Count and time what this process asks of znode stores, as long as the context lasts.

    Args:
        registry: of prometheus_client, which gets the metrics.

    Example:
        with oncelog.metrics.stores.observe(prometheus_client.REGISTRY):
            serve()
    """
    return _observed(registry)


@contextmanager
def _observed(registry: CollectorRegistry) -> Iterator[None]:
    instruments = Instruments(c.STORE)
    registry.register(instruments)
    try:
        with measured(instruments):
            yield
    finally:
        registry.unregister(instruments)


@contextmanager
def measured(instruments: Instruments) -> Iterator[None]:
    """Measure in the block. The instruments have the catalogue's metrics of stores."""
    meter = _Meter(instruments)
    metering.METERS.append(meter)
    try:
        yield
    finally:
        metering.METERS.remove(meter)


class _Meter:
    """See `metering.Meter`."""

    def __init__(self, instruments: Instruments) -> None:
        self._to = instruments

    def step_ended(self, seconds: float, result: str) -> None:
        self._to.observe(c.STORE_STEP, seconds, result)

    def write_ended(self, seconds: float, result: str) -> None:
        self._to.observe(c.STORE_WRITE, seconds, result)
