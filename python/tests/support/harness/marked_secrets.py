"""Secrets with a mark, in every form in which a user may pass one, and everything that a call shows of them."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit

import pytest

from oncelog.secrecy import is_secret
from oncelog.spark.kit.options import Option

MARK = "s3cr3t-7f2e"

PLACES = (
    f"https://user:{MARK}@host:9200/x",
    f"https://host:9200/x?api_key={MARK}",
    f"s3://bucket/x?secret_key={MARK}",
    f"s3a://user:{MARK}@bucket/x",
    f"postgresql://user:{MARK}@host/database",
    f"postgresql://host/database?password={MARK}",
    f"zk://user:{MARK}@host:2181/x",
    f"user:{MARK}@host:9092",
    f"host:9092,other:{MARK}@host:9092",
)
"""Of options that name a place."""

SECRETS = (
    MARK,
    f'a.LoginModule required username="user" password="{MARK}";',
    f"a.LoginModule required path='{MARK}' x={MARK};",
    f"-----BEGIN PRIVATE KEY-----\n{MARK}\n-----END PRIVATE KEY-----",
)
"""Of options whose name says that they are secret."""


class Thing:
    """An object of a user's that shows its text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def forms(text: str) -> Iterator[object]:
    """The text, and objects that contain it."""
    yield text
    yield text.encode()
    yield Thing(text)
    yield PurePosixPath(text)
    yield urlsplit(text)
    yield [text]
    yield {"url": text}


def given(options: Iterable[Option], least: Mapping[str, object], *more: str) -> Iterator[dict[str, object]]:
    """Options of a sink or source, each time with one of them in one form with a secret in it.

    Args:
        options: the table of the options.
        least: the options that are always required.
        more: names of further options, which the table does not have.
    """
    for number, name in enumerate([*(option.name for option in options), *more]):
        texts = SECRETS if is_secret(name) else PLACES
        for value in (*texts, *forms(texts[number % len(texts)])):
            yield {**least, name: value}


def shown(call: Callable[[], Any], caplog: pytest.LogCaptureFixture) -> str:
    """What the call shows: its result, or the error with all of its causes, and what it logged."""
    caplog.clear()
    try:
        found = call()
        text = f"{found!r} {found}"
    except Exception as problem:  # noqa: BLE001 - whatever it is, its text is searched
        text = "".join(traceback.format_exception(problem))
    return text + caplog.text


def assert_hidden(calls: Iterable[tuple[object, Callable[[], Any]]], caplog: pytest.LogCaptureFixture) -> None:
    """No call shows the mark.

    Args:
        calls: each with what it was given.
        caplog: of the test.
    """
    shows = {repr(what): text for what, call in calls if MARK in (text := shown(call, caplog))}
    assert shows == {}
