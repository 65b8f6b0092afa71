"""The public calls of oncelog, found by walking its modules, and values of every kind to call them with.

A *door* is what users call: a public function of a module, a method of a class that the module names or a door returns,
and the constructor of a value that a door takes. A new one is found by itself.
"""

from __future__ import annotations

import inspect
import os
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from pyspark.sql import DataFrame, SparkSession

from oncelog.spark.kit.committer_sink import CommitterSink, FolderSink
from oncelog.spark.kit.sink import ForeachBatchSink
from oncelog.types import OffsetAndMetadata, TopicPartition
from oncelog_kafka.sinks.batch_sink import KafkaSink

LATE = {"DataFrame": DataFrame, "SparkSession": SparkSession, "KafkaSink": KafkaSink, "KafkaAdminClient": object}
"""Names in types that their modules import for type checkers only."""

OURS = {"oncelog", "oncelog_kafka"}

NOT_DOORS = {
    "LogServices",  # the parts of an open log: runtime.py puts them together
    "ProducerIdAndEpoch",  # the coordinator hands them out
    "OncelogDataSource",  # Spark makes it and calls it
    "Receipt", "Receipt.appended", "Receipt.failed",  # by the producer, once per record
}  # fmt: skip


class Door(NamedTuple):
    """One call that users make.

    Attributes:
        name: as users write it: ``Consumer.assign``.
        function: what is called; of a method, without its object.
        owner: the class of a method's object; None of a function, a constructor or a class method.
    """

    name: str
    function: Callable[..., Any]
    owner: type | None

    @property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """What the caller passes."""
        found = dict(inspect.signature(self.function).parameters)
        if self.owner is not None:
            found.pop("self")
        return found

    @property
    def hints(self) -> dict[str, Any]:
        """The types of the parameters that have one."""
        function = self.function.__init__ if isinstance(self.function, type) else self.function  # type: ignore[misc]
        return get_type_hints(inspect.unwrap(function), localns=LATE)


HOOKS = {
    name
    for sink in (ForeachBatchSink, CommitterSink, FolderSink)
    for name, member in vars(sink).items()
    if inspect.isfunction(member) and not hasattr(member, "__wrapped__") and not name.startswith("_")
}
"""What the author of a sink overrides, and no user calls: a call that users make is `checked`."""

# Finding them ---------------------------------------------------------------------------------------------------------


def doors_of(modules: Iterable[ModuleType]) -> list[Door]:
    """Every door that can be reached from public modules, by name."""
    found: dict[str, Door] = {}
    classes: set[type] = set()
    waiting = [door for module in modules for thing in _public(module) for door in _doors_of(thing, classes)]
    while waiting:
        door = waiting.pop()
        if door.name in found or door.name in NOT_DOORS:
            continue
        found[door.name] = door
        for kind in _classes_in(door.hints.get("return")):
            waiting += _doors_of(kind, classes)
        for kind in [kind for name in door.parameters for kind in _classes_in(door.hints.get(name))]:
            waiting += _doors_of(kind, classes)
            waiting += [Door(kind.__name__, kind, None)] if is_dataclass(kind) else []
    return sorted(found.values(), key=lambda door: door.name)


def _public(module: ModuleType) -> Iterator[object]:
    """What a module offers: what its `__all__` says, or else what it defines."""
    names = getattr(module, "__all__", None)
    if names is None:
        offered = [
            thing for name, thing in vars(module).items() if _is_public(name) and _home(thing) == module.__name__
        ]
    else:
        offered = [getattr(module, name) for name in names]
    yield from (thing for thing in offered if inspect.isfunction(thing) or isinstance(thing, type))


def _doors_of(thing: object, classes: set[type]) -> Iterator[Door]:
    """A function, or what users call of a class; nothing of `classes` again."""
    if not isinstance(thing, type):
        yield Door(f"{_home(thing)}.{thing.__name__}", thing, None)  # type: ignore[attr-defined, arg-type]
    elif thing not in classes and thing.__name__ not in NOT_DOORS:
        classes.add(thing)
        yield from _doors_of_class(thing)


def _doors_of_class(kind: type) -> Iterator[Door]:
    if issubclass(kind, Enum | BaseException) or getattr(kind, "_is_protocol", False):
        return
    if not is_dataclass(kind) and not issubclass(kind, tuple):
        yield Door(kind.__name__, kind, None)
    for base in kind.__mro__:
        for name, member in vars(base).items() if _home(base).partition(".")[0] in OURS else ():
            if issubclass(kind, ForeachBatchSink) and name in HOOKS:
                continue
            if inspect.isfunction(member) and (_is_public(name) or name == "__call__"):
                yield Door(f"{kind.__name__}.{name}", member, kind)
            elif isinstance(member, classmethod | staticmethod) and _is_public(name):
                yield Door(f"{kind.__name__}.{name}", getattr(kind, name), None)


def _classes_in(hint: Any) -> list[type]:
    """The classes of oncelog that a type names."""
    if isinstance(hint, type) and not get_args(hint):
        return [hint] if _home(hint).partition(".")[0] in OURS else []
    return [kind for part in get_args(hint) if not isinstance(part, str) for kind in _classes_in(part)]


def _is_public(name: str) -> bool:
    return not name.startswith("_")


def _home(thing: object) -> str:
    return getattr(thing, "__module__", None) or ""


# Values ---------------------------------------------------------------------------------------------------------------


class Thing:
    """Of no type that any call takes."""


def _partition() -> TopicPartition:
    return TopicPartition("flights", 0)


VALUES: dict[str, Callable[[], object]] = {
    "None": lambda: None,
    "7": lambda: 7,
    "True": lambda: True,
    "7.0": lambda: 7.0,
    "nan": lambda: float("nan"),
    "str": lambda: "flights",
    "bytes": lambda: b"flights",
    "bytearray": lambda: bytearray(b"flights"),
    "Path": lambda: Path("flights"),
    "[]": list,
    "{}": dict,
    "()": tuple,
    "[7]": lambda: [7],
    "[None]": lambda: [None],
    "['flights']": lambda: ["flights"],
    "iter([7])": lambda: iter([7]),
    "iter(['flights', None])": lambda: iter(["flights", None]),
    "{'flights'}": lambda: {"flights"},
    "{'a': 7}": lambda: {"a": 7},
    "{'a': 'b'}": lambda: {"a": "b"},
    "{7: 'a'}": lambda: {7: "a"},
    "('flights', 0)": lambda: ("flights", 0),
    "[('flights', 0)]": lambda: [("flights", 0)],
    "tp": _partition,
    "[tp]": lambda: [_partition()],
    "[tp, 7]": lambda: [_partition(), 7],
    "{tp: 0}": lambda: {_partition(): 0},
    "{tp: None}": lambda: {_partition(): None},
    "{tp: True}": lambda: {_partition(): True},
    "{tp: 'latest'}": lambda: {_partition(): "latest"},
    "{tp: OffsetAndMetadata}": lambda: {_partition(): OffsetAndMetadata(0)},
    "{'flights-0': 0}": lambda: {"flights-0": 0},
    "[(tp, 0)]": lambda: [(_partition(), 0)],
    "OffsetAndMetadata": lambda: OffsetAndMetadata(0),
    "object()": object,
    "Thing": lambda: Thing,
    "a function": lambda: lambda *given: None,
}
"""Made anew for each call: an iterator is used up by one."""

ODD: dict[str, Callable[[], object]] = {
    "''": str,
    "half a surrogate": lambda: "\ud800",
    "NUL": lambda: "\0",
    "a long text": lambda: "x" * 5_000,
    "-1": lambda: -1,
    "2**70": lambda: 2**70,
    "['']": lambda: [""],
    "[-1]": lambda: [-1],
    "[flights-99]": lambda: [TopicPartition("flights", 99)],
    "[unknown-0]": lambda: [TopicPartition("unknown", 0)],
    "[''-0]": lambda: [TopicPartition("", 0)],
    "{tp: -1}": lambda: {_partition(): -1},
    "{tp: 2**70}": lambda: {_partition(): 2**70},
}
"""Of the right type for some call, and hardly ever a good value."""


def fits(value: object, hint: Any) -> bool:  # noqa: PLR0911 - a row per kind of type
    """Whether a value is of a type; a bool is no number, and a text no collection."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint in (Any, object, inspect.Parameter.empty):
        return True
    if origin in (Union, types.UnionType):
        return any(fits(value, part) for part in parts)
    if origin is Literal:
        return isinstance(value, str) and value in parts
    if hint in (None, type(None)):
        return value is None
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if origin in (None, os.PathLike):
        return isinstance(value, origin or hint)
    if origin is Callable:
        return callable(value)
    if not isinstance(value, origin) or isinstance(value, str | bytes | bytearray):
        return False
    if issubclass(origin, Mapping):
        return all(fits(key, parts[0]) and fits(one, parts[1]) for key, one in value.items())
    return all(fits(one, parts[0]) for one in value) if parts else True


_PLAIN = ("None", "str", "7", "True", "{tp: 0}", "[tp]", "['flights']", "[]", "tp", "a function", "OffsetAndMetadata")


def good(hint: Any, others: Iterable[object] = ()) -> object:
    """A value of a type: a plain one, or one of `others`.

    Raises:
        LookupError: none is known; the test has to bring one.
    """
    for value in (*(VALUES[name]() for name in _PLAIN), "earliest", *others):
        if fits(value, hint):
            return value
    raise LookupError(f"no value of the type {hint} is known to this test; bring one")


def wrong_calls(door: Door, others: Iterable[object] = ()) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """A parameter, what is passed for it, and all arguments: one is of a wrong type, the others are good."""
    yield from _calls(door, VALUES, others, fitting=False)


def odd_calls(door: Door, others: Iterable[object] = ()) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The same with an argument of the right type, which need not be a good one."""
    yield from _calls(door, VALUES | ODD, others, fitting=True)


def _calls(
    door: Door, values: Mapping[str, Callable[[], object]], others: Iterable[object], *, fitting: bool
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    named = {name: p for name, p in door.parameters.items() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)}
    for name in named:
        needed = [other for other, p in named.items() if p.default is p.empty and other != name]
        rest = {other: good(door.hints[other], others) for other in needed}
        for label, make in values.items():
            if fits(make(), door.hints[name]) is fitting:
                yield name, label, {**rest, name: make()}
