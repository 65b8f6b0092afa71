"""Options as users give them: found by name in any case, read by their rows, and answered in the documented spelling.

A row says where a name counts, how its text is read, its default and its meaning. Checks, errors and docs are made from
rows; nothing else states a name or a default.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from oncelog.errors import InvalidOptionError
from oncelog.limits import MAX_NAME_BYTES
from oncelog.spark.kit import values


class Use(StrEnum):
    """What an option is given to. The values are what errors call it."""

    STREAM_READ = "readStream"
    BATCH_READ = "read"
    FOREACH_BATCH = "foreachBatch(sink(...))"
    STREAM_WRITE = "writeStream.format"
    BATCH_WRITE = "write"


SOURCE = frozenset({Use.STREAM_READ, Use.BATCH_READ})
STREAMING_SINKS = frozenset({Use.FOREACH_BATCH, Use.STREAM_WRITE})
SINKS = STREAMING_SINKS | {Use.BATCH_WRITE}
EVERYWHERE = SOURCE | SINKS


@dataclass(frozen=True, slots=True)
class Option:
    """One row of a table.

    Attributes:
        name: the documented spelling.
        uses: where it may be given.
        parse: text to value; raises ValueError with what it expected.
        doc: its meaning, one line.
        default: text that counts when the option is not given; None if nothing does.
        default_doc: what the docs show as the default, where that is not `default`.
    """

    name: str
    uses: frozenset[Use]
    parse: Callable[[str], Any]
    doc: str
    default: str | None = None
    default_doc: str = ""

    def value(self, given: str | None) -> Any:
        """The value of a text, or of the default where there is none; None without either.

        Raises:
            InvalidOptionError: it is malformed.
        """
        found = self.default if given is None else given
        if found is None:
            return None
        try:
            return self.parse(found)
        except ValueError as problem:
            raise InvalidOptionError(
                "the option's value is malformed", option=self.name, value=found, expected=str(problem)
            ) from None


class Given:
    """The options a user gave, each known, in its place and well-formed.

    Args:
        options: names in any case, values as text, number or bool; None counts as not given.
        table: all rows there are, also of other uses.
        use: where these options were given.
        synonyms: names of other products, in lower case, and what they are called here.
    """

    def __init__(
        self,
        options: Mapping[str, object],
        table: Iterable[Option],
        use: Use,
        synonyms: Mapping[str, str] | None = None,
    ) -> None:
        self._use = use
        self._table = tuple(table)
        self._rows = {option.name: option for option in self._table if use in option.uses}
        self._synonyms = synonyms or {}
        self._texts: dict[str, str] = {}
        for key, raw in options.items():
            if raw is None:
                continue
            option = self._row(key)
            if option.name in self._texts:
                raise InvalidOptionError("the option is given twice", option=option.name)
            self._texts[option.name] = as_text(option.name, raw)
        self._values = {name: option.value(self._texts.get(name)) for name, option in self._rows.items()}

    def has(self, name: str) -> bool:
        """Whether the user gave it."""
        return name in self._texts

    def value(self, name: str) -> Any:
        """The value given, else the default, else None (also where the option does not count)."""
        return self._values.get(name)

    def require(self, name: str, why: str = "a required option is missing") -> None:
        """Refuse options without this one."""
        if not self.has(name):
            raise InvalidOptionError(why, option=name, use=self._use.value)

    def only_one_of(self, *names: str, required: bool = False) -> str | None:
        """The one of `names` that is given."""
        given = [name for name in names if self.has(name)]
        if len(given) > 1:
            raise InvalidOptionError("these options exclude each other; give one of them", given=given)
        if required and not given:
            raise InvalidOptionError("one of these options is required", one_of=list(names), use=self._use.value)
        return given[0] if given else None

    def _row(self, key: str) -> Option:
        for option in self._rows.values():
            if option.name.lower() == key.lower():
                return option
        elsewhere = [option for option in self._table if option.name.lower() == key.lower()]
        if elsewhere:
            raise InvalidOptionError(
                "the option does not count here",
                option=elsewhere[0].name,
                use=self._use.value,
                counts_for=sorted(use.value for option in elsewhere for use in option.uses),
            )
        raise InvalidOptionError("unknown option", option=key, use=self._use.value, **self._suggestion(key))

    def _suggestion(self, key: str) -> dict[str, str]:
        """The nearest name that counts here, if any is near; snake_case is near its camelCase."""
        names = {name.lower(): name for name in self._rows}
        synonym = self._synonyms.get(key.lower())
        if synonym in self._rows:
            return {"did_you_mean": synonym}
        near = difflib.get_close_matches(key.lower().replace("_", ""), names, n=1)
        return {"did_you_mean": names[near[0]]} if near else {}


_HALF_SURROGATE = re.compile("[\ud800-\udfff]")


def as_text(name: str, raw: object) -> str:
    """An option's value as text: Spark passes text; Python callers may pass numbers and bools as well.

    Raises:
        InvalidOptionError: it is none of these, or nothing can encode it.
    """
    if isinstance(raw, bool):
        return str(raw).lower()
    if not isinstance(raw, str) and not (isinstance(raw, int) and raw.bit_length() < 64):
        raise InvalidOptionError(
            "the option's value must be text, a whole number of 64 bits or a bool", option=name, value=raw
        )
    if _HALF_SURROGATE.search(f"{name}{raw}"):
        raise InvalidOptionError(
            "the option's name or value holds half a surrogate, which nothing can encode", option=name, value=raw
        )
    return str(raw)


# The history of a sink ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryOptions:
    """Whose history a sink goes on with, and what else goes with it; the same for every sink.

    Attributes:
        topic: of all rows; None if each row names its own.
        transactional_id_prefix: None for the query id.
        sink_name: gives a sink a history of its own below the prefix.
        group_id: the consumer group that gets the batch's source offsets.
        takeover: id of the query whose history this query continues.
    """

    topic: str | None = None
    transactional_id_prefix: str | None = None
    sink_name: str | None = None
    group_id: str | None = None
    takeover: str | None = None


def history(given: Given) -> dict[str, Any]:
    """The fields of `HistoryOptions`.

    Raises:
        InvalidOptionError: they contradict each other.
    """
    prefix, sink_name = given.value("transactionalIdPrefix"), given.value("sinkName")
    for dependent in ("groupId", "takeover"):
        if given.has(dependent) and prefix is None:
            raise InvalidOptionError(
                "this option needs a prefix that outlives the query id",
                option=dependent,
                missing="transactionalIdPrefix",
            )
    if sink_name is not None:
        _check_together(f"{prefix or _ANY_QUERY_ID}.{sink_name}")
    return {
        "topic": given.value("topic"),
        "transactional_id_prefix": prefix,
        "sink_name": sink_name,
        "group_id": given.value("groupId"),
        "takeover": given.value("takeover"),
    }


_ANY_QUERY_ID = "00000000-0000-0000-0000-000000000000"


def _check_together(both: str) -> None:
    try:
        values.prefix(both)
    except ValueError as problem:
        raise InvalidOptionError(
            "the prefix and the sink's name are too long together; shorten one of them",
            options=["transactionalIdPrefix", "sinkName"],
            value=both,
            maximum_bytes=MAX_NAME_BYTES,
            expected=str(problem),
        ) from None


# Docs -----------------------------------------------------------------------------------------------------------------

_USES_DOC = {
    EVERYWHERE: "all",
    SOURCE: "source",
    SINKS: "sinks",
    STREAMING_SINKS: "streaming sinks",
    frozenset({Use.STREAM_READ}): "source, stream",
    frozenset({Use.BATCH_READ}): "source, batch",
    frozenset({Use.STREAM_WRITE}): "sink `writeStream.format`",
}


def render_markdown_table(table: Iterable[Option], uses: Collection[Use] = tuple(Use)) -> str:
    """The options that count for any of `uses`, as a Markdown table; the column of uses stands where they differ."""
    rows = [option for option in table if option.uses & frozenset(uses)]
    is_mixed = len({option.uses for option in rows}) > 1
    head = ["option", *(["for"] if is_mixed else []), "default", "meaning"]
    cells = [
        [f"`{row.name}`", *([_USES_DOC[row.uses]] if is_mixed else []), _default_doc(row), row.doc] for row in rows
    ]
    lines = [head, ["---"] * len(head), *cells]
    return "\n".join(f"| {' | '.join(line)} |" if line[0] != "---" else f"|{'|'.join(line)}|" for line in lines) + "\n"


def _default_doc(option: Option) -> str:
    if option.default_doc:
        return option.default_doc
    return "-" if option.default is None else f"`{option.default}`"
