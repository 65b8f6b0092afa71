"""Checks the arguments of public functions against their type annotations, before the functions run.

The annotations are read at the first call. From then on an argument of exactly the annotated type costs one set lookup.
`Producer.send` takes only a few microseconds and therefore has its own checks.

Arguments are passed on unchanged, except that an iterator, which the check would exhaust, becomes a list. Bounds and
other conditions are checked by `arguments` and by the functions themselves; so are arguments behind a ``*``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import wraps
from operator import contains
from reprlib import Repr
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from oncelog.errors import Shown, UsageError, ensure
from oncelog.habits import answers, check_names, shown_name
from oncelog.secrecy import HIDDEN, is_secret

Checked = TypeVar("Checked", bound=Callable[..., Any])

_FEW_FIELDS = 2
"""A dataclass with at most this many fields is shown with them: TopicPartition(topic, partition)."""

_short = Repr()
_short.maxstring = _short.maxother = 100


def checked(call: Checked) -> Checked:
    """Decorates a function, or a class for its constructor: a call with arguments of wrong types does not run.

    Raises:
        UsageError: (at the call) an argument has the wrong type; the error names it and the right type.
        WrongArgumentsError: (at the call) an argument is unknown, surplus or missing.
    """
    if isinstance(call, type):
        constructor = call.__init__  # type: ignore[misc]
        setattr(call, "__init__", checked(constructor))  # noqa: B010 - mypy takes no assignment to a method
        return call
    signature: _Signature | None = None
    exact: Sequence[Container[type]] = ()
    exact_of: Mapping[str, Container[type]] = {}

    @wraps(call)
    def door(*given: Any, **named: Any) -> Any:
        nonlocal signature, exact, exact_of
        if signature is None:
            found = _Signature.of(call)
            exact_of = {name: rule.exact for name, rule in found.rules.items()}
            exact = [exact_of[name] for name in found.positional]
            signature = found  # last, because other threads test it
        try:
            if all(map(contains, exact, map(type, given))):
                for name, value in named.items():
                    if type(value) not in exact_of.get(name, ()):
                        break
                else:
                    return call(*given, **named)
            admitted, admitted_by_name = signature.admit(given, named)
            return call(*admitted, **admitted_by_name)
        except TypeError:
            check_names(call, given, named)
            raise

    return answers(door)  # type: ignore[return-value]


class _Signature(NamedTuple):
    """The parameters of a function.

    Attributes:
        name: of the function, for errors.
        positional: the parameters that may be passed by position, in order.
        rules: each parameter's rule, by name.
        others: the rule of ``**`` arguments, if the function takes them.
    """

    name: str
    positional: list[str]
    rules: dict[str, _Rule]
    others: _Rule | None

    @classmethod
    def of(cls, call: Callable[..., Any]) -> _Signature:
        function = inspect.unwrap(call)
        hints = _hints(function)
        found = inspect.signature(function).parameters.values()
        rules = {p.name: _rule(hints.get(p.name, Any)) for p in found if p.kind is not p.VAR_POSITIONAL}
        others = next((rules.pop(p.name) for p in found if p.kind is p.VAR_KEYWORD), None)
        positional = [p.name for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        return cls(shown_name(call), positional, rules, others)

    def admit(self, given: Sequence[Any], named: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Check the arguments and return those to call the function with."""
        admitted = [self._admit_one(name, value) for name, value in zip(self.positional, given, strict=False)]
        too_many = given[len(self.positional) :]
        return [*admitted, *too_many], {name: self._admit_one(name, value) for name, value in named.items()}

    def _admit_one(self, name: str, value: Any) -> Any:
        rule = self.rules.get(name, self.others)
        try:
            return value if rule is None else rule.admit(value)
        except _Refused as refused:
            message = f"{refused.part}{name} must be {refused.rule.text}{refused.fix and '; '}{refused.fix}"
            found = HIDDEN if is_secret(name) else Shown(_short.repr(refused.value))
            raise UsageError(message, call=self.name, found=found, type=type(refused.value).__name__) from None


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The types of the parameters, without the return type: that may be imported for type checkers only."""
    stated = {name: text for name, text in function.__annotations__.items() if name != "return"}
    holder = type(function.__name__, (), {"__annotations__": stated})
    return get_type_hints(holder, getattr(function, "__globals__", {}), include_extras=True)


# Rules ----------------------------------------------------------------------------------------------------------------


class _Rule(NamedTuple):
    """Which values a parameter takes.

    Attributes:
        text: for the error, after "must be".
        exact: values of exactly these types are accepted without calling `admit`.
        admit: returns the value to pass on, or raises `_Refused`.
    """

    text: str
    exact: Set[type]
    admit: Callable[[Any], Any]


class _Refused(Exception):  # noqa: N818 - it becomes the UsageError
    """An argument, or a value inside it, has the wrong type.

    Attributes:
        part: which values inside the argument, as in "each item of "; empty for the argument itself.
        fix: what to write instead, if that is known.
    """

    def __init__(self, value: object, rule: _Rule, *, part: str = "", fix: str = "") -> None:
        super().__init__()
        self.value, self.rule, self.part, self.fix = value, rule, part, fix

    def inside(self, part: str) -> _Refused:
        return _Refused(self.value, self.rule, part=f"{part} of {self.part}", fix=self.fix)


def _rule(hint: Any) -> _Rule:
    """The rule of an annotation.

    Tuples are not supported, nor iterables inside a collection: the check would exhaust them.
    """
    origin, parts = get_origin(hint), get_args(hint)
    if hint in (Any, object) or isinstance(hint, TypeVar):
        return _anything()
    if origin is Annotated:
        return _with_fix(_rule(parts[0]), parts[1])
    if origin in (Union, UnionType):
        return _one_of([_rule(part) for part in parts])
    if origin is Literal:
        return _plain(
            " or ".join(map(repr, parts)), frozenset(), lambda value: isinstance(value, str) and value in parts
        )
    if origin is Callable:
        return _plain("a function", frozenset(), callable)
    kind = origin or hint
    if not parts or not issubclass(kind, Iterable):
        return _plain(
            _words(kind), frozenset([kind]), _number if kind is int else lambda value: isinstance(value, kind)
        )
    inner = [get_origin(part) for part in parts]
    ensure(Iterable not in inner and kind is not tuple, "every type that a call takes has a rule", hint=str(hint))
    if issubclass(kind, Mapping):
        return _mapping(kind, _rule(parts[0]), _rule(parts[1]))
    return _collection(kind, _rule(parts[0]))


def _anything() -> _Rule:
    """The rule of anything, and of `self`. It learns the types it has seen, so that they need no further check."""
    seen: set[type] = set()

    def admit(value: Any) -> Any:
        seen.add(type(value))
        return value

    return _Rule("anything", seen, admit)


def _plain(text: str, exact: Set[type], is_taken: Callable[[Any], bool]) -> _Rule:
    """The rule of values that are not collections."""

    def admit(value: Any) -> Any:
        if not is_taken(value):
            raise _Refused(value, rule)
        return value

    rule = _Rule(text, exact, admit)
    return rule


def _number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _words(kind: type) -> str:
    if kind is NoneType:
        return "None"
    if issubclass(kind, Enum) and len(kind) == 1:  # a sentinel for an argument that was left out
        return ""
    names = [field.name for field in fields(kind)] if is_dataclass(kind) else []
    return f"{kind.__name__}({', '.join(names)})" if 0 < len(names) <= _FEW_FIELDS else kind.__name__


def _one_of(rules: list[_Rule]) -> _Rule:
    def admit(value: Any) -> Any:
        near = None
        for one in rules:
            try:
                return one.admit(value)
            except _Refused as refused:
                near = refused if refused.part or refused.fix else near
        if near is not None and near.part:  # a collection, but with items of the wrong type
            raise near
        raise _Refused(value, rule, fix=near.fix if near else "")

    texts = [one.text for one in rules if one.text]
    rule = _Rule(" or ".join(texts), frozenset().union(*(one.exact for one in rules)), admit)
    return rule


def _with_fix(rule: _Rule, fix: str) -> _Rule:
    """The rule of ``Annotated[a type, "what to write instead"]``."""

    def admit(value: Any) -> Any:
        try:
            return rule.admit(value)
        except _Refused as refused:
            refused.fix = fix
            raise

    return rule._replace(admit=admit)


def _collection(kind: type, item: _Rule) -> _Rule:
    def admit(value: Any) -> Any:
        # For Python a str is a collection of strings, but a caller who passes one hardly means that.
        if not isinstance(value, kind) or isinstance(value, str | bytes | bytearray):
            raise _Refused(value, rule, fix="put the single value into a list" if _is_admitted(item, value) else "")
        items: Any = list(value) if isinstance(value, Iterator) else value
        for one in items:
            if type(one) not in item.exact:
                _inside("each item", item, one)
        return items

    article = "an" if kind is Iterable else "a"
    rule = _Rule(f"{article} {kind.__name__.lower()} of {item.text}", frozenset(), admit)
    return rule


def _mapping(kind: type, key: _Rule, item: _Rule) -> _Rule:
    def admit(value: Any) -> Any:
        if not isinstance(value, kind):
            raise _Refused(value, rule)
        for name, one in value.items():  # type: ignore[attr-defined]
            _inside("each key", key, name)
            _inside("each value", item, one)
        return value

    rule = _Rule(f"a mapping of {key.text} to {item.text}", frozenset(), admit)
    return rule


def _inside(part: str, rule: _Rule, value: Any) -> None:
    try:
        rule.admit(value)
    except _Refused as refused:
        raise refused.inside(part) from None


def _is_admitted(rule: _Rule, value: Any) -> bool:
    try:
        rule.admit(value)
    except _Refused:
        return False
    return True
