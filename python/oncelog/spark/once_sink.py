"""An exactly-once sink into a store of the user's own, by two functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pyspark.sql import DataFrame

from oncelog.batches.two_functions import OnceTarget
from oncelog.ports import ZnodeStore
from oncelog.signatures import checked
from oncelog.spark.kit.committer_sink import CommitterSink
from oncelog.spark.kit.options import Given, HistoryOptions, Use, history, history_options
from oncelog.spark.versions import require_classic

_USES = frozenset({Use.FOREACH_BATCH})

OPTIONS: Final = history_options(_USES, "required, unless `together` has a place for it")


class OnceSink(CommitterSink[HistoryOptions]):
    """Writes each micro-batch exactly once, by two functions. Create it with `once`."""

    @checked
    def __init__(
        self, write: Callable[[DataFrame, str], object], was_written: Callable[[str], bool], options: Mapping[str, Any]
    ) -> None:
        super().__init__(HistoryOptions(**history(Given(options, OPTIONS, Use.FOREACH_BATCH))))
        self._write_rows = write
        self._was_written = was_written

    def new_target(self, store: ZnodeStore) -> OnceTarget:
        return OnceTarget(store, self._write_rows, self._was_written)


@checked
def once(write: Callable[[DataFrame, str], object], was_written: Callable[[str], bool], **options: Any) -> OnceSink:
    """An exactly-once sink for ``writeStream.foreachBatch`` into a store of your own.

    The ledger decides each batch and gives it a token; then `write` is called, and called again by a restart if the
    driver died, until `was_written` says so. `oncelog.testing.once_contract` tests the two on your store.

    Args:
        write: takes the batch's DataFrame and the token, and makes all its rows and the token visible at one moment, or
            nothing. If the token is there already, it must change nothing, also if two drivers call it at a time:
            insert the token in the same transaction, under a unique key.
        was_written: whether a token is there. Your store must keep tokens for as long as an old driver may wake up
            after a new one has started: all of them, or those of the last days. A token is
            ``<prefix>.<batch id>.<random text>``.
        options: znodes, transactionalIdPrefix, sinkName, takeover.

    Returns:
        A function of (DataFrame, batch id).

    Raises:
        InvalidOptionError: an option is unknown, malformed, missing, or contradicts another one.
        UsageError: this is a Spark Connect session.

    Example:
        sink = oncelog.spark.once(write, was_written, znodes="/data/ledger", transactionalIdPrefix="delayed")
        query = df.writeStream.foreachBatch(sink).option("checkpointLocation", "/data/ck").start()
    """
    require_classic()
    return OnceSink(write, was_written, options)
