"""Every public name tells what it does, where `help()` looks for it."""

from __future__ import annotations

import inspect

import oncelog


def is_documented(thing: object) -> bool:
    text = inspect.getdoc(thing) or ""
    # A dataclass without a docstring gets its signature for one.
    return bool(text) and not text.startswith(f"{getattr(thing, '__name__', '')}(")


def test_every_public_name_exists_and_is_documented() -> None:
    undocumented = []
    for name in oncelog.__all__:
        thing = getattr(oncelog, name)
        if inspect.isroutine(thing) or inspect.isclass(thing) or inspect.ismodule(thing):
            undocumented += [] if is_documented(thing) else [name]
        if inspect.isclass(thing):
            undocumented += [
                f"{name}.{member}"
                for member, value in vars(thing).items()
                if not member.startswith("_") and inspect.isfunction(value) and not is_documented(value)
            ]

    assert undocumented == []
