"""The site shows the examples of docstrings as code: they stand in them without a fence, as help() shows them best."""

from __future__ import annotations

import re
import textwrap
from typing import Any

from griffe import Extension, Object

_EXAMPLE = re.compile(r"^( *)Example:\n((?:\1 +.*\n?|\n)+)", re.MULTILINE)


class DocstringExamples(Extension):
    """Fences the code below ``Example:``."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Called with each object that has been read."""
        if obj.docstring is not None:
            obj.docstring.value = _EXAMPLE.sub(_fenced, obj.docstring.value)


def _fenced(example: re.Match[str]) -> str:
    code = f"```python\n{textwrap.dedent(example[2]).strip()}\n```"
    return textwrap.indent("Example:\n" + textwrap.indent(code, "    ") + "\n", example[1])
