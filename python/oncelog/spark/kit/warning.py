"""What a sink logs about itself, for the people who start its query."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from oncelog.errors import OncelogError
from oncelog.spark.kit.options import HistoryOptions

_log = logging.getLogger("oncelog.spark.sink")

_NO_PREFIX: Final = (
    "the sink has no transactionalIdPrefix, so its history belongs to this checkpoint: a query with a new checkpoint "
    "writes its rows again, without an error. To keep the history, set transactionalIdPrefix=%s"
)


def warn_without_prefix(options: HistoryOptions, query_id: str) -> None:
    """Log a warning if a lost checkpoint would go unnoticed. Setting the query's id as the prefix keeps the ledger."""
    if options.transactional_id_prefix is None:
        _log.warning(_NO_PREFIX, query_id)


@contextmanager
def errors_in_one_line() -> Iterator[None]:
    """Log an error of oncelog in one line, before Spark buries it in pages of stack traces."""
    try:
        yield
    except OncelogError as problem:
        _log.error("%s: %s", type(problem).__name__, problem)
        raise
