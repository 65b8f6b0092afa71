"""The tasks that send staged records to the store, a request at a time, and retry while it is unreachable or busy.

A record may be sent any number of times: the `_id` of an added document, and the version of one that replaces another,
are part of the decision. So if a request is repeated, the answer that the store has the document of that version is as
good as that it has taken it. If nobody has sent the version before, or if the store has a newer one, then another
writer wrote that document. The driver hears of it, and sends the batch again with a version that is larger.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from oncelog.errors import OncelogError
from oncelog.znodes.clock import SYSTEM_CLOCK
from oncelog_search import errors
from oncelog_search.address import Address
from oncelog_search.errors import IndexChangedError, SearchUnavailableError
from oncelog_search.server import DENIED, MISSING, OK, TOO_LARGE, Reply, SearchServer, denied, kept_server

THERE: Final = "version_conflict_engine_exception"
"""The type of the answer that a document of this `_id`, or of no older version, is there."""

_BUSY: Final = (429, 500, 502, 503, 504)
_FIRST_PAUSE_MS: Final = 100
_LONGEST_PAUSE_MS: Final = 5_000

_REASONS_ONLY: Final = "errors,items.*.error.type,items.*.error.reason"
"""Of an answer without errors this is almost nothing."""

_ALL_OF_ERRORS: Final = "errors,items.*._id,items.*.status,items.*.error"

_REPLACING: Final = "index"
"""The name of the action whose document has a version."""

_CURRENT: Final = re.compile(r"current version \[(-?\d+)\]")
"""How a version conflict names the version that the store has."""

_STAGED_VERSION: Final = r'^(\{"index":\{"_id":"(?:[^"\\]|\\.)*","version":)\d+'
"""The beginning of a record that replaces a document, up to its version; see `documents`."""


@dataclass(frozen=True, slots=True)
class SendTask:
    """What a task needs to know; it is pickled into the task, and has no password.

    Attributes:
        address: of the store.
        index: that the documents go to.
        request_bytes: the most that a request carries.
        retry_timeout_ms: how long it retries one request.
        version: of documents that replace others.
        is_new: whether nobody has sent the documents with this version before.
        is_staged: whether the records have this version; otherwise the task writes it into them.
    """

    address: Address
    index: str
    request_bytes: int
    retry_timeout_ms: int
    version: int
    is_new: bool
    is_staged: bool


@dataclass(slots=True)
class Sent:
    """What one task sent.

    Attributes:
        records: that the store has taken, or of which it has a newer version.
        newest: the largest version by which another writer's document stays in place; -1 if there is none.
        problem: why it stopped, as the error that the driver is to raise; a task that fails would be tried again.
    """

    records: int = 0
    newest: int = -1
    problem: OncelogError | None = None

    def row(self) -> tuple[int, int, str | None]:
        """As a task hands it to the driver."""
        problem = self.problem
        told = None if problem is None else [type(problem).__name__, problem.message, problem.fields]
        return self.records, self.newest, None if told is None else json.dumps(told, default=str)

    @classmethod
    def of_row(cls, records: int, newest: int, told: str | None) -> Sent:
        if told is None:
            return cls(records, newest)
        name, message, fields = json.loads(told)
        return cls(records, newest, getattr(errors, name)(message, **fields))


def send(task: SendTask, batches: Iterable[pa.RecordBatch]) -> Sent:
    """Send the records of one task; see `documents`.

    Args:
        batches: of one column.
    """
    sent = Sent()
    try:
        sending = _Sending(task, kept_server(task.address))
        for batch in batches:
            for request, count in requests(_of_version(batch.column(0), task), task.request_bytes):
                sent.newest = max(sent.newest, sending.until_taken(request))
                sent.records += count
    except OncelogError as problem:
        sent.problem = problem
    return sent


def _of_version(records: pa.Array, task: SendTask) -> pa.Array:
    """The records, with the version that the task is to send."""
    if task.is_staged:
        return records
    return pc.replace_substring_regex(records, _STAGED_VERSION, rf"\1{task.version}", max_replacements=1)


def requests(records: pa.Array, most_bytes: int) -> Iterator[tuple[memoryview, int]]:
    """The bodies of requests, and how many records are in each: pieces of the array's own memory.

    Args:
        records: texts, none of them null.
        most_bytes: of a body; a longer record is one alone.
    """
    _, ends, text = records.buffers()
    if text is None:
        return
    is_large = pa.types.is_large_string(records.type)
    all_offsets = memoryview(ends).cast("B").cast("q" if is_large else "i")
    offsets = all_offsets[records.offset : records.offset + len(records) + 1]
    data, first = memoryview(text), 0
    while first < len(records):
        behind = max(bisect_right(offsets, offsets[first] + most_bytes) - 1, first + 1)
        yield data[offsets[first] : offsets[behind]], behind - first
        first = behind


@dataclass(slots=True)
class _Sending:
    """Sends requests of one task."""

    task: SendTask
    server: SearchServer

    def until_taken(self, request: memoryview) -> int:
        """Ask until the store has taken all of it.

        Returns:
            the largest version by which another writer's document stays in place; -1 if there is none.

        Raises:
            SearchUnavailableError: it does not do so in time.
            SearchAccessError: it denies this process access.
            IndexChangedError: the index is gone, or does not take a document.
        """
        until_ms = SYSTEM_CLOCK.monotonic_ms() + self.task.retry_timeout_ms
        pause_ms, shown = _FIRST_PAUSE_MS, _REASONS_ONLY
        is_new, newest = self.task.is_new and _is_first_try(), -1
        while True:
            try:
                reply = self.server.bulk(self.task.index, request, shown)
                newest = max(newest, _newest(reply, self.task.version, is_new=is_new))
                if _has_taken(reply):
                    return newest
                is_new = False
                if reply.status == OK and shown == _REASONS_ONLY:
                    shown = _ALL_OF_ERRORS  # the same again, so that it says of which documents it speaks
                    continue
                waiting = self._busy(reply)
            except SearchUnavailableError as problem:
                waiting, is_new = problem, False
            if SYSTEM_CLOCK.monotonic_ms() + pause_ms > until_ms:
                raise waiting
            SYSTEM_CLOCK.sleep_ms(pause_ms)
            pause_ms = min(2 * pause_ms, _LONGEST_PAUSE_MS)

    def _busy(self, reply: Reply) -> SearchUnavailableError:
        """The error of a store that may take the request later; raises that of one that will not."""
        about: dict[str, Any] = {"index": self.task.index}
        if reply.status in DENIED:
            raise denied(reply.reason, **about)
        if reply.status == MISSING:
            raise IndexChangedError("the index is gone", **about)
        if reply.status == TOO_LARGE:
            raise IndexChangedError(
                "the store takes no requests of this size; lower requestBytes, or raise the store's "
                "http.max_content_length",
                requestBytes=self.task.request_bytes,
                **about,
            )
        if reply.status not in {OK, *_BUSY}:
            raise IndexChangedError("the store refuses a request", status=reply.status, reason=reply.reason, **about)
        failed = _failed(reply) if reply.status == OK else []
        refused = [item for item in failed if item["status"] not in _BUSY]
        if refused:
            first = refused[0]
            raise IndexChangedError(
                "the index refuses a document",
                id=first.get("_id"),
                status=first["status"],
                reason=_told(first["error"]),
                refused=len(refused),
                **about,
            )
        return SearchUnavailableError(
            "the store is too busy, or a part of it cannot be reached",
            status=failed[0]["status"] if failed else reply.status,
            reason=_told(failed[0]["error"]) if failed else reply.reason,
            url=str(self.server.address),
            **about,
        )


def _items(reply: Reply) -> list[dict[str, Any]]:
    items = reply.body.get("items") if isinstance(reply.body, dict) else None
    return [next(iter(item.values())) for item in items or () if item]


def _failed(reply: Reply) -> list[dict[str, Any]]:
    return [item for item in _items(reply) if "error" in item and item["error"].get("type") != THERE]


def _is_first_try() -> bool:
    """Whether no other try of this task can have sent its records."""
    task = TaskContext.get()
    return task is None or task.attemptNumber() == 0


def _newest(reply: Reply, version: int, *, is_new: bool) -> int:
    """The largest version by which a document of another writer stays in place; -1 if there is none.

    Args:
        version: of the documents that were sent.
        is_new: whether this was the first request with them, so that nobody else can have sent this version.
    """
    if reply.status != OK or not isinstance(reply.body, dict):
        return -1
    conflicts = [
        item[_REPLACING]["error"].get("reason") or ""
        for item in reply.body.get("items") or ()
        if item.get(_REPLACING, {}).get("error", {}).get("type") == THERE
    ]
    found = [version if (named := _CURRENT.search(said)) is None else int(named[1]) for said in conflicts]
    return max((current for current in found if current > version or is_new), default=-1)


def _has_taken(reply: Reply) -> bool:
    """Whether the store has each document of a request, or a newer one."""
    if reply.status != OK or not isinstance(reply.body, dict):
        return False
    return reply.body.get("errors") is False or (reply.body.get("errors") is True and not _failed(reply))


def _told(error: dict[str, Any]) -> str:
    """What an error says, and what caused it, in one line."""
    cause = (error.get("caused_by") or {}).get("reason")
    parts = [error.get("reason"), cause]
    return " ".join(": ".join(str(part) for part in parts if part).split())[:500]
