"""The index that a sink writes to: which one it is, and what it can keep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from oncelog.errors import UsageError
from oncelog.spark.kit.upserts import Mode
from oncelog_search.server import SearchServer, quoted

UUID: Final = "index.uuid"


@dataclass(frozen=True, slots=True)
class Index:
    """An index.

    Attributes:
        name: its own, to which an alias may have led.
        uuid: which no other index has, not even one of its name.
        fields: by their names, as the mapping describes them.
        settings: flat, such as ``index.uuid``; those that have their default value are missing.
    """

    name: str
    uuid: str
    fields: Mapping[str, Any]
    settings: Mapping[str, str]


def describe(server: SearchServer, asked: str, mode: Mode) -> Index:
    """The index that a name leads to.

    Raises:
        UsageError: there is none, there are several, or it cannot keep what the sink promises.
        OncelogError: see `SearchServer`.
    """
    found = server.get(f"/{quoted(asked)}?flat_settings=true", index=asked)
    if not found:
        raise UsageError(
            "the store has no such index, or this user may not see it; create it, with a mapping of all columns",
            index=asked,
        )
    name = _written_to(found, asked, mode)
    described = found[name]
    mapping = described.get("mappings") or {}
    for refusal in _refusals(described["settings"], mapping, described.get("aliases", {}).get(asked) or {}):
        raise UsageError(refusal, index=name)
    settings = described["settings"]
    return Index(name, settings[UUID], mapping.get("properties") or {}, settings)


def uuid_now(server: SearchServer, name: str) -> str | None:
    """The uuid of the index of this name; None if there is none."""
    found = server.get(f"/{quoted(name)}/_settings/{UUID}?flat_settings=true", index=name)
    own = (found or {}).get(name)
    return None if own is None else str(own["settings"][UUID])


def _written_to(found: Mapping[str, Any], asked: str, mode: Mode) -> str:
    """The one of these indices that takes new documents."""
    if asked in found:
        return asked
    aliases = {name: described.get("aliases", {}).get(asked) for name, described in found.items()}
    if None in aliases.values():
        raise UsageError("this is a data stream; the sink writes to an index, or to an alias of one", index=asked)
    if len(aliases) == 1:
        return next(iter(aliases))
    if mode is Mode.UPSERT:
        raise UsageError(
            "the alias has several indices, and an upsert replaces documents of one only; name one index",
            index=asked,
            indices=sorted(aliases),
        )
    writing = [name for name, alias in aliases.items() if alias.get("is_write_index")]
    if len(writing) != 1:
        raise UsageError(
            "the alias has several indices, and none of them is the one to write to; set is_write_index",
            index=asked,
            indices=sorted(aliases),
        )
    return writing[0]


def _refusals(settings: Mapping[str, str], mapping: Mapping[str, Any], alias: Mapping[str, Any]) -> list[str]:
    """Why this index cannot keep what the sink promises."""
    blocked = [block for block in _BLOCKS if settings.get(block) == "true"]
    piped = [name for name in _PIPELINES if settings.get(name, "_none") != "_none"]
    tests = {
        f"the index is blocked for writing; set {', '.join(blocked)} to false": bool(blocked),
        "the index is closed; open it": settings.get("index.verified_before_close") == "true",
        f"the index has an ingest pipeline, which may drop, change or refuse documents; take {', '.join(piped)} out, "
        "and do in Spark what it does": bool(piped),
        "the index acknowledges what its disk may not have yet; set index.translog.durability to request": (
            settings.get("index.translog.durability", "request").lower() == "async"
        ),
        "the index has a mode that gives documents ids of its own; the sink needs an index of the standard mode": (
            settings.get("index.mode", "standard") not in {"standard", "lookup"}
            or settings.get("index.append_only.enabled") == "true"
        ),
        "the index wants a routing for each document, which the sink does not give; take _routing.required and "
        "index.routing_partition_size out": (
            bool((mapping.get("_routing") or {}).get("required"))
            or settings.get("index.routing_partition_size", "1") != "1"
        ),
        "the index follows another one, and takes documents from that only; name the index that it follows": (
            settings.get("index.xpack.ccr.following_index") == "true"
            or "index.plugins.replication.follower.leader_index" in settings
        ),
        "the alias gives documents a routing; name the index itself": "index_routing" in alias,
    }
    return [refusal for refusal, applies in tests.items() if applies]


_BLOCKS: Final = ("index.blocks.write", "index.blocks.read_only", "index.blocks.read_only_allow_delete")
_PIPELINES: Final = ("index.default_pipeline", "index.final_pipeline")
