"""Checks options as users give them, against a table of the options that exist.

A row of the table says where an option may be used, how its text is parsed, its default and its meaning. Checks, errors
and the reference are all derived from the rows; no other code states a name or a default. Names match in any case, and
errors show the documented spelling.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from oncelog.errors import InvalidOptionError, Shown
from oncelog.limits import MAX_NAME_BYTES
from oncelog.spark.kit import values


class Use(StrEnum):
    """Where an option is given. The values are the names used in errors."""

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
    """One row of the table.

    Attributes:
        name: the documented spelling.
        uses: where it may be given.
        parse: text to value; raises ValueError with a description of what it expected.
        doc: its meaning, one line.
        default: the text that is used if the option is not given; None if there is no default.
        default_doc: what the docs show as the default instead of `default`.
    """

    name: str
    uses: frozenset[Use]
    parse: Callable[[str], Any]
    doc: str
    default: str | None = None
    default_doc: str = ""

    def value(self, given: str | None) -> Any:
        """The parsed value of `given`, or else of the default; None if there is neither.

        Raises:
            InvalidOptionError: the text is malformed.
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
    """The options that a user gave, after the checks: all are known, allowed here and well-formed.

    Args:
        options: names in any case; values are text, numbers or bools; None counts as not given.
        table: all rows, including those for other uses.
        use: where these options were given.
        synonyms: from other products' names, in lower case, to the names used here.
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
        """Whether the user gave the option."""
        return name in self._texts

    def value(self, name: str) -> Any:
        """The given value, else the default, else None; also None if the option does not apply here."""
        return self._values.get(name)

    def require(self, name: str, why: str = "a required option is missing") -> None:
        """Raise InvalidOptionError if the option was not given."""
        if not self.has(name):
            raise InvalidOptionError(why, option=name, use=self._use.value)

    def only_one_of(self, *names: str, required: bool = False) -> str | None:
        """The one of `names` that was given; more than one is an error."""
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
                "the option does not apply here",
                option=elsewhere[0].name,
                use=self._use.value,
                applies_to=sorted(use.value for option in elsewhere for use in option.uses),
            )
        raise InvalidOptionError("unknown option", option=key, use=self._use.value, **self._suggestion(key))

    def _suggestion(self, key: str) -> dict[str, str]:
        """The most similar name that applies here, if there is one; snake_case is similar to its camelCase."""
        names = {name.lower(): name for name in self._rows}
        synonym = self._synonyms.get(key.lower())
        if synonym in self._rows:
            return {"did_you_mean": synonym}
        near = difflib.get_close_matches(key.lower().replace("_", ""), names, n=1)
        return {"did_you_mean": names[near[0]]} if near else {}


_UNPAIRED_SURROGATE = re.compile("[\ud800-\udfff]")


def as_text(name: str, raw: object) -> str:
    """An option's value as text. Spark passes text; Python callers may also pass numbers and bools.

    Raises:
        InvalidOptionError: it is none of these, or cannot be encoded.
    """
    if isinstance(raw, bool):
        return str(raw).lower()
    if not isinstance(raw, str) and not (isinstance(raw, int) and raw.bit_length() < 64):
        raise InvalidOptionError(
            "the option's value must be text, a whole number of 64 bits or a bool",
            option=name,
            value=raw if type(raw) in (int, float, list, tuple, dict) else Shown(type(raw).__name__),  # may be secret
        )
    if _UNPAIRED_SURROGATE.search(f"{name}{raw}"):
        raise InvalidOptionError(
            "the option's name or value contains an unpaired surrogate, which UTF-8 cannot encode",
            option=name,
            value=raw,
        )
    return str(raw)


# The history of a sink ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryOptions:
    """The options that identify a sink's history; the same for every sink.

    Attributes:
        topic: of all rows; None if each row names its own.
        transactional_id_prefix: None for the query id.
        sink_name: gives a sink its own history under the prefix.
        group_id: the consumer group that gets the batch's source offsets.
        takeover: id of the query whose history this query continues.
        znodes: the place of the ledger, if the user named one.
    """

    topic: str | None = None
    transactional_id_prefix: str | None = None
    sink_name: str | None = None
    group_id: str | None = None
    takeover: str | None = None
    znodes: str | None = None

    def prefix(self, query_id: str) -> str:
        """The prefix of the ledger of this sink in a query."""
        prefix = self.transactional_id_prefix or query_id
        return f"{prefix}.{self.sink_name}" if self.sink_name else prefix


def sink_name_option(uses: frozenset[Use]) -> Option:
    """The row of `HistoryOptions.sink_name` in a sink's table."""
    doc = "Distinguishes several sinks of one query. The prefix is then `<prefix>.<sinkName>`."
    return Option("sinkName", uses, values.prefix, doc)


def takeover_option(uses: frozenset[Use]) -> Option:
    """The row of `HistoryOptions.takeover`."""
    return Option("takeover", uses, values.text, "Id of another query, whose history this query continues.")


def history_options(uses: frozenset[Use], ledger_doc: str) -> tuple[Option, ...]:
    """The rows of a sink's history, for sinks whose ledger may be anywhere.

    Args:
        uses: of all of them.
        ledger_doc: where the ledger is by default.
    """
    places = (
        "Where the ledger is, which says which batches are done: a folder or `sqlite:/a/file` if one host runs the "
        "query's driver, `postgresql://user@host:port/database`, `zk://host:port,.../chroot`, or `s3://bucket/folder`. "
        "It must outlive the query's checkpoint. Many queries can share it."
    )
    prefix = (
        "The name of the query's history in the ledger. Set it: with the default, a deleted checkpoint brings a new "
        f"query id, and with it an empty history. {values.PREFIX_RULE}"
    )
    return (
        Option("znodes", uses, values.text, places, default_doc=ledger_doc),
        Option("transactionalIdPrefix", uses, values.prefix, prefix, default_doc="the query id"),
        sink_name_option(uses),
        takeover_option(uses),
    )


def history(given: Given) -> dict[str, Any]:
    """The fields of `HistoryOptions`.

    Raises:
        InvalidOptionError: an option lacks one that it needs, or prefix and name are too long together.
    """
    prefix, sink_name = given.value("transactionalIdPrefix"), given.value("sinkName")
    for dependent in ("groupId", "takeover"):
        if given.has(dependent) and prefix is None:
            raise InvalidOptionError(
                "the option needs a transactionalIdPrefix, because a new checkpoint gets a new query id",
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
        "znodes": given.value("znodes"),
    }


_ANY_QUERY_ID = "00000000-0000-0000-0000-000000000000"


def _check_together(both: str) -> None:
    try:
        values.prefix(both)
    except ValueError as problem:
        raise InvalidOptionError(
            "the prefix and the sinkName are too long together; shorten one of them",
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
    """The options that apply to any of `uses`, as a Markdown table, with a column of uses if they differ."""
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
