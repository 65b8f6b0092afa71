"""Finds out about a micro-batch: its query, run and checkpoint, and its sources' start and end offsets.

All knowledge of Spark's internals is in this module. There are three ways to get at a batch. In foreachBatch, it is
read from the query's JVM object (`of_foreach_batch`). A jar may have read it there (`of_facts`). A stream writer
commits in a process without a JVM, so it reads the checkpoint's files (`of_checkpoint`).

All three read Spark's offset log. Assumptions: Spark writes a batch's entry before it runs the batch, never changes the
entry, and keeps the one before it. Hence a replay shows the offsets of the first run. Modes in which Spark writes the
entry later are refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
from pyarrow import ArrowException
from pyarrow import fs as arrow_fs

from oncelog.errors import InvalidOptionError, SparkInternalsError, UsageError
from oncelog.spark.kit import offset_log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class BatchContext:
    """One micro-batch of a streaming query.

    Attributes:
        query_id: the same for all restarts from one checkpoint.
        run_id: new with each start of the query; empty from `of_checkpoint`, whose caller knows it from elsewhere.
        checkpoint_root: folder of the query's checkpoint.
        batch_id: counts from 0.
        start_offsets, end_offsets: one for each source, in an order that is the same after a restart. A start is None
            if the source had no offset before: in batch 0, or for a new source.
        has_state: whether the query keeps state in addition to its sources' offsets.
        source_clusters: the ids of the clusters that its Kafka sources read, as far as the caller found them out.
    """

    query_id: str
    run_id: str
    checkpoint_root: str
    batch_id: int
    start_offsets: tuple[str | None, ...]
    end_offsets: tuple[str | None, ...]
    has_state: bool
    source_clusters: tuple[str | None, ...] = ()


_Entry = Mapping[str, str | None]
"""An entry of the offset log: each source's offset, by its position in the query or the name the user gave it."""


def _context(
    query_id: str, run_id: str, root: str, batch_id: int, start: _Entry, end: _Entry, state: bool
) -> BatchContext:
    names = offset_log.in_order(end)
    starts, ends = tuple(start.get(name) for name in names), tuple(end[name] for name in names)
    return BatchContext(query_id, run_id, root, batch_id, starts, ends, state)


# From the running query -----------------------------------------------------------------------------------------------


def of_foreach_batch(df: DataFrame, batch_id: int) -> BatchContext:
    """The context of the micro-batch that Spark passed to a foreachBatch function.

    Args:
        df: as Spark passed it, or derived from it in the same session.
        batch_id: as Spark passed it.

    Raises:
        UsageError: `df` does not belong to a running query.
        InvalidOptionError: the query has a checkpoint that no restart will find, or runs in a mode in which a replayed
            batch may contain different rows.
        SparkInternalsError: oncelog does not know this version of Spark.
    """
    session = df.sparkSession
    with known_internals():
        execution = _execution_of(session._jsparkSession)
        _refuse_late_offset_logs(execution.getClass().getSimpleName(), execution.trigger().toString())
        end = _logged(execution, batch_id)
        start = _logged(execution, batch_id - 1) if batch_id > 0 else {}
        root = str(execution.resolvedCheckpointRoot())
        place = session.conf.get("spark.sql.streaming.checkpointLocation", None)
        _refuse_passing_checkpoint(root, place, has_name=execution.name() is not None)
        state = session._jvm.org.apache.hadoop.fs.Path(root, "state")  # type: ignore[union-attr]
        hadoop = session._jsparkSession.sessionState().newHadoopConf()
        has_state = bool(state.getFileSystem(hadoop).exists(state))
        query_id, run_id = str(execution.id().toString()), str(execution.runId().toString())
    return _context(query_id, run_id, root, batch_id, start, end, has_state)


_BATCH_ID = "streaming.sql.batchId"
"""The local property by which Spark tells a query's thread which batch it runs."""


def check_batch_id(df: DataFrame, batch_id: int) -> None:
    """Refuse a batch id other than that of the batch that Spark is running.

    With another batch's id the ledger would take the rows for a replay of that batch, and not write them.

    Args:
        df: as Spark passed it, or derived from it in the same session.
        batch_id: as the user passed it to the sink.

    Raises:
        UsageError: it is another one, or `df` does not belong to a running query.
    """
    if df.sparkSession.sparkContext.getLocalProperty(_BATCH_ID) == str(batch_id):
        return
    # Threads of the user's own do not have the property, or may have inherited that of an earlier batch.
    with known_internals():
        running = int(_execution_of(df.sparkSession._jsparkSession).lastExecution().currentBatchId())
    if running != batch_id:
        raise UsageError(
            "this is not the id of the batch that Spark is running; pass the batch id that Spark gives to the "
            "foreachBatch function together with the DataFrame",
            batch_id=batch_id,
            running_batch_id=running,
        )


@contextmanager
def short_when_stopped(df: DataFrame) -> Iterator[None]:
    """Remove Java's stack traces from an error that is raised after the query's `stop()`.

    Spark searches the text of the error for its own interrupt, with a regular expression that recurses once for each
    character. With stack traces in the text this was a StackOverflowError, which ended the query's thread.
    """
    try:
        yield
    except Exception as problem:
        thrown = getattr(problem, "java_exception", None)
        if thrown is not None and not _execution_of(df.sparkSession._jsparkSession).isActive():
            _drop_stacks(df, thrown)
        raise


def _drop_stacks(df: DataFrame, thrown: Any) -> None:
    gateway = df.sparkSession.sparkContext._gateway
    nothing = gateway.new_array(gateway.jvm.java.lang.StackTraceElement, 0)  # type: ignore[union-attr]
    while thrown is not None:
        thrown.setStackTrace(nothing)
        thrown = thrown.getCause()


_UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_TEMPORARY = re.compile(f".*/temporary-{_UUID}/?")
_UNNAMED = re.compile(f"(?P<parent>.*)/{_UUID}/?", re.DOTALL)
"""How Spark names the checkpoint of a query that sets none: in the JVM's temporary folder, or below
``spark.sql.streaming.checkpointLocation`` if the session sets that."""


def _refuse_passing_checkpoint(root: str, place: str | None, *, has_name: bool) -> None:
    """Refuse a checkpoint that no restart of the query will find: each start would write all rows again."""
    below = _UNNAMED.fullmatch(root)
    is_new = place is not None and not has_name and below is not None and below["parent"].endswith(place.rstrip("/"))
    if is_new or _TEMPORARY.fullmatch(root):
        raise InvalidOptionError(
            "the query has no checkpoint of its own: each start would begin from scratch and write its rows again; "
            "give writeStream the option checkpointLocation (a queryName is enough if the session sets "
            "spark.sql.streaming.checkpointLocation)",
            missing="checkpointLocation",
            temporary=root,
        )


def _execution_of(jvm_session: Any) -> Any:
    """The running query for which Spark cloned this session; Spark clones it for each query."""
    for execution in jvm_session.sharedState().activeStreamingQueries().values():
        # None: that query ended during this loop.
        if execution is not None and execution.sparkSessionForStream().equals(jvm_session):
            return execution
    raise _no_query()


def _no_query() -> UsageError:
    return UsageError(
        "the DataFrame belongs to no running query: use the sink in writeStream.foreachBatch, with the DataFrame that "
        "Spark passes"
    )


def _refuse_late_offset_logs(kind: str, trigger: object) -> None:
    if kind == "AsyncProgressTrackingMicroBatchExecution":
        raise InvalidOptionError(
            "the query logs its offsets after the batch, so a replayed batch may contain different rows; run it "
            "without async progress tracking and without real-time mode",
            option="asyncProgressTrackingEnabled",
            trigger=str(trigger),
        )
    if kind != "MicroBatchExecution":
        raise _unknown_internals("a query of an unknown kind", kind=kind)


def _logged(execution: Any, batch_id: int) -> _Entry:
    entry = execution.offsetLog().get(batch_id)
    if not entry.isDefined():
        raise _unknown_internals("no entry in the offset log for a batch", batch_id=batch_id)
    offsets = entry.get()
    kind = offsets.getClass().getSimpleName()
    if kind == "OffsetSeq":
        found = offsets.offsets()
        return {str(position): _json(found.apply(position)) for position in range(found.size())}
    if kind == "OffsetMap":
        by_name = offsets.offsetsMap()
        names = by_name.keysIterator().toSeq()
        return {names.apply(at): _json(by_name.apply(names.apply(at))) for at in range(names.size())}
    raise _unknown_internals("an offset log of an unknown kind", kind=kind)


def _json(option: Any) -> str | None:
    return str(option.get().json()) if option.isDefined() else None


@contextmanager
def known_internals() -> Iterator[None]:
    """Turn whatever a renamed or moved part of Spark leads to into one error that names Spark's version."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # not there under Spark Connect

    try:
        yield
    except (Py4JError, AttributeError, TypeError) as problem:
        raise _unknown_internals("a call into Spark failed", problem=str(problem)) from problem


def _unknown_internals(what: str, **fields: object) -> SparkInternalsError:
    return SparkInternalsError(
        "Spark's internals differ from those that oncelog knows; use a supported version of Spark, or upgrade oncelog",
        spark_version=pyspark.__version__,
        found=what,
        **fields,
    )


# From what a jar found in the JVM -------------------------------------------------------------------------------------


def of_facts(facts: Mapping[str, Any] | None) -> BatchContext:
    """The context of a batch, from what a jar found in Spark: in one call, and also for a caller without the JVM.

    Args:
        facts: ``queryId``, ``runId``, ``batchId``, ``checkpointRoot``, ``defaultPlace`` (the session's
            checkpointLocation), ``hasName``, ``execution`` and ``trigger`` (their kinds), ``entry`` and ``entryBefore``
            (texts from the offset log), ``hasState``, and ``clusters`` if it looked for those of the sources.
            None if it found no running query.

    Raises:
        UsageError, InvalidOptionError, SparkInternalsError: see `of_foreach_batch`.
        CorruptDataError: the offset log is malformed.
    """
    if facts is None:
        raise _no_query()
    _refuse_late_offset_logs(facts["execution"], facts["trigger"])
    root, batch_id = facts["checkpointRoot"], facts["batchId"]
    _refuse_passing_checkpoint(root, facts["defaultPlace"], has_name=facts["hasName"])
    end = offset_log.parse(facts["entry"] or "", f"{root}/offsets/{batch_id}").offsets
    before = f"{root}/offsets/{batch_id - 1}"
    start = offset_log.parse(facts["entryBefore"] or "", before).offsets if batch_id > 0 else {}
    found = _context(facts["queryId"], facts["runId"], root, batch_id, start, end, facts["hasState"])
    return replace(found, source_clusters=tuple(facts.get("clusters", ())))


# From the checkpoint's files ------------------------------------------------------------------------------------------


def of_checkpoint(checkpoint_location: str, batch_id: int) -> BatchContext:
    """The context of a batch, from the files of its query's checkpoint. Its run id stays empty.

    Args:
        checkpoint_location: as the user gave it to Spark: a path, or a URI of a file system that pyarrow supports.
        batch_id: of a batch that Spark started.

    Raises:
        InvalidOptionError: the checkpoint cannot be read from this process.
        CorruptDataError: its files are malformed.
    """
    folder = _CheckpointFolder(checkpoint_location)
    end = folder.logged(batch_id)
    start = folder.logged(batch_id - 1) if batch_id > 0 else {}
    return _context(folder.query_id(), "", checkpoint_location, batch_id, start, end, folder.has("state"))


_FILE_SCHEME = re.compile("^file:(//[^/]*)?")
"""Hadoop takes everything after this scheme literally, including spaces and percent signs."""


class _CheckpointFolder:
    """The files of a checkpoint, read with pyarrow, because there is no JVM in this process."""

    def __init__(self, location: str) -> None:
        self._location = location
        with self._readable():
            if location.startswith("file:"):
                self._files, self._root = arrow_fs.LocalFileSystem(), _FILE_SCHEME.sub("", location)
            elif "://" in location:
                self._files, self._root = arrow_fs.FileSystem.from_uri(location.replace("s3a://", "s3://", 1))
            else:
                self._files, self._root = arrow_fs.LocalFileSystem(), str(Path(location).absolute())

    def query_id(self) -> str:
        text = self._text("metadata")
        try:
            return str(json.loads(text)["id"])
        except (ValueError, KeyError, TypeError, RecursionError):
            raise offset_log.corrupt(f"{self._location}/metadata", text) from None

    def logged(self, batch_id: int) -> _Entry:
        name = f"offsets/{batch_id}"
        return offset_log.parse(self._text(name), f"{self._location}/{name}").offsets

    def has(self, name: str) -> bool:
        with self._readable():
            info = self._files.get_file_info(f"{self._root}/{name}")
        return bool(info.type != arrow_fs.FileType.NotFound)

    def _text(self, name: str) -> str:
        with self._readable(), self._files.open_input_stream(f"{self._root}/{name}") as stream:
            return bytes(stream.read()).decode(errors="replace")

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ArrowException) as problem:
            raise InvalidOptionError(
                "the sink cannot read the query's checkpoint; give its full URI, or write through foreachBatch",
                option="checkpointLocation",
                value=self._location,
                problem=str(problem),
            ) from problem
