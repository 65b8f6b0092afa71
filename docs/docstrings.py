"""What the API reference does to docstrings, which are written for people who read them in the code.

Code below ``Example:`` is shown as code. Names that share a description (``start, end: of the range``) have it each.
Base classes that no page describes are not named.
"""

from __future__ import annotations

import re
import textwrap
from typing import Any

from griffe import Class, Extension, Object

_EXAMPLE = re.compile(r"^( *)Example:\n((?:\1 +.*\n?|\n)+)", re.MULTILINE)
_SHARED = re.compile(r"^( *)(\w+(?:, \w+)+): (.*(?:\n\1 +.*)*)", re.MULTILINE)

_HIDDEN = {"Guided"}
"""It answers wrong names with the right ones, and has nothing to call."""


class Docstrings(Extension):
    """Prepares each docstring for the parser of Google's style, and hides bases that are of no use to a reader."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Called with each object that has been read."""
        if obj.docstring is not None:
            obj.docstring.value = _SHARED.sub(_each, _EXAMPLE.sub(_fenced, obj.docstring.value))

    def on_class(self, *, cls: Class, **_: Any) -> None:
        """Called with each class that has been read."""
        cls.bases = [base for base in cls.bases if str(base) not in _HIDDEN]


def _fenced(example: re.Match[str]) -> str:
    code = f"```python\n{textwrap.dedent(example[2]).strip()}\n```"
    return textwrap.indent("Example:\n" + textwrap.indent(code, "    ") + "\n", example[1])


def _each(shared: re.Match[str]) -> str:
    return "\n".join(f"{shared[1]}{name}: {shared[3]}" for name in shared[2].split(", "))
