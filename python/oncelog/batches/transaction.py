"""Steps as values, and what runs them: one transaction in the store of the ledgers, for one sink or for several.

A sink *derives* its step right before the transaction: there it checks what must still hold when the transaction
commits (its open transactions, its partitions). If the transaction fails with an error that one of the sinks can
recover from, all sinks derive their steps again. Hence each check is as young as the transaction that relies on it,
even if another sink made this one wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from oncelog.ports import ZnodeStore, ZnodeView
from oncelog.znodes.transact import resolving

T = TypeVar("T")


def _ignore(_: object) -> None:
    pass


def _never(_: Exception) -> bool:
    return False


@dataclass(frozen=True)
class Step(Generic[T]):
    """What one sink does in a transaction.

    Attributes:
        run: reads, compares and writes. It may run several times; only the run that is committed counts.
        take: takes what that run returned.
        recover: called with the error of a failed transaction, whichever step raised it. Returns True after it has
            removed the cause, so that a step derived again may succeed. A step recovers a few times at most.
    """

    run: Callable[[ZnodeView], T]
    take: Callable[[T], None] = _ignore
    recover: Callable[[Exception], bool] = _never


def run_steps(store: ZnodeStore, derivations: Iterable[Callable[[], Step[Any] | None]]) -> list[Any]:
    """Run the steps of one or several sinks in one transaction: all of them happen, or none.

    Args:
        store: of the ledgers of all sinks.
        derivations: one for each sink; each returns its step, or None if it has nothing to do in this transaction.

    Returns:
        What the steps returned, in order.

    Raises:
        Whatever a derivation, a step or the store raises, if no step can recover from it: nothing was written.
    """
    derivations = list(derivations)
    while True:
        steps = [step for derive in derivations if (step := derive()) is not None]
        if not steps:
            return []
        try:
            results = resolving(lambda steps=steps: store.transact(lambda view: [step.run(view) for step in steps]))  # type: ignore[misc]
        except Exception as problem:
            if not any(step.recover(problem) for step in steps):
                raise
            continue
        for step, result in zip(steps, results, strict=True):
            step.take(result)
        return results
