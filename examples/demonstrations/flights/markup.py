"""HTML and SVG elements as text."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

EMPTY = frozenset({"circle", "line", "meta", "path", "polygon", "polyline", "rect"})
"""Elements that this page uses without content."""


def tag(name: str, /, *content: str, **attributes: object) -> str:
    """An element.

    Args:
        name: of the element.
        content: markup; plain text goes through `text` first.
        attributes: an underscore stands for a dash, and one at the end for nothing (``class_``); None leaves one out.
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    inner = "".join(content)
    if name in EMPTY and not inner:
        return f"<{name}{written}/>"
    return f"<{name}{written}>{inner}</{name}>"


def text(plain: object) -> str:
    """Plain text as markup."""
    return escape(str(plain))


def table(head: Iterable[str], rows: Iterable[Iterable[str]], **attributes: object) -> str:
    """A table of cells that are elements already."""
    body = (tag("tr", *cells) for cells in rows)
    return tag("table", tag("thead", tag("tr", *head)), tag("tbody", *body), **attributes)
