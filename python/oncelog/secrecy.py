"""Hides secrets in texts that people see: errors, log lines, representations, the output of commands. Pure.

A secret is recognised by where it stands, never by its value: the password in a URL, the value of a setting whose name
says so, the login of a Java client. Errors hide secrets by themselves (`errors.OncelogError`). Everything else that
shows options or places calls `hidden`. Repetitions in the patterns have bounds, so that a long text takes no time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from typing import Any
from urllib.parse import ParseResult, SplitResult

HIDDEN = "***"

_SECRET = (
    r"pass(?:word|wd|phrase)|pwd|secret|credential|jaas|(?:api|access|account|private|shared|keystore|sas)[._-]?key"
    r"|(?:bearer|auth|access|session|sas|security|id|refresh)[._-]?token|[._-]token\b|signature|\bsig\b"
)

_SECRET_NAME = re.compile(_SECRET, re.IGNORECASE)

_PUBLIC_NAME = re.compile(r"(?:env|file|class|location|url|ms|seconds|type)$", re.IGNORECASE)
"""Ends of names that only say where a secret is, or how it is used: `credentials_file`."""

_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""

_ASSIGNED = re.compile(
    rf"""(?<![\w.-])(?P<name>[\w.-]{{0,80}}?(?:{_SECRET})[\w.-]{{0,80}})(?P<equals>\\?['"]?\s{{0,8}}[=:]\s{{0,8}})"""
    rf"""(?P<value>b?(?:{_QUOTED})|[^\s&;,)\]}}'"]+)""",
    re.IGNORECASE,
)
"""``name=value`` and ``'name': value``."""

_LOGIN = re.compile(r"(jaas[\w.]{0,80}\\?['\"]?\s{0,8}[=:]\s{0,8})[^;]*;?", re.IGNORECASE)
"""A login of Java, whose options may have any name."""

_MODULE = re.compile(r"(LoginModule\s{1,8}(?:required|requisite|sufficient|optional))\b[^;]*;?")

_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*-----|\Z)", re.DOTALL)

_OF_USER = re.compile(r"(?<![\w.%+~-])(?P<user>[\w.%+~-]++):(?!//)(?P<password>[^\s'\"]{0,200})@")
"""``user:password@`` before a host. A password may contain an @."""

_VALUES = frozenset({"value", "found", "given"})
"""Fields of an error about an option that contain what the user gave."""


def is_secret(name: str) -> bool:
    """Whether the name of an option or setting says that its value is a secret."""
    return _SECRET_NAME.search(name) is not None and _PUBLIC_NAME.search(name) is None


def hidden(text: str) -> str:
    """The text without the secrets in it."""
    text = _KEY.sub(HIDDEN, _MODULE.sub(rf"\g<1> {HIDDEN}", _LOGIN.sub(rf"\g<1>{HIDDEN}", text)))
    return _ASSIGNED.sub(_assignment, _OF_USER.sub(rf"\g<user>:{HIDDEN}@", text))


def _assignment(found: re.Match[str]) -> str:
    name, equals, value = found["name"], found["equals"], found["value"]
    is_example = not value.strip("'\"").strip(".")  # as in: write it as password="..."
    return found[0] if is_example or not is_secret(name) else f"{name}{equals}{HIDDEN}"


def in_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The named values of an error without secrets. Values that contain none stay as they are."""
    about_secret = is_secret(str(fields.get("option", "")))
    return {
        name: HIDDEN if about_secret and name in _VALUES else _of_value(name, value) for name, value in fields.items()
    }


def _of_value(name: str, value: Any) -> Any:
    match value:
        case None | bool() | int() | float() | Enum():
            return value
        case str():
            return type(value)(HIDDEN if is_secret(name) else hidden(str(value)))
        case SplitResult() | ParseResult():
            return hidden(value.geturl())
        case list() | tuple() if type(value) in (list, tuple):
            return type(value)(_of_value(name, one) for one in value)
        case dict():
            return {key: _of_value(str(key), one) for key, one in value.items()}
        case _:
            shown = repr(value)
            without = HIDDEN if is_secret(name) else hidden(shown)
            return value if without == shown else without
