"""Output of the commands: tables for people, JSON documents for scripts, progress on stderr.

On a terminal, tables fit its width and long names are folded. In a pipe, lines are as long as needed, without colour.
No name is ever cut. Names are users' text, so control characters in them are shown escaped, never sent to a terminal.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

PIPE_WIDTH = 100_000
"""Width of tables in a pipe, where no line may be folded."""


# JSON -----------------------------------------------------------------------------------------------------------------


def as_json(value: Any) -> Any:
    """A value of the admin client as JSON.

    Dataclasses become objects. Bytes that are text become ``{"text": ...}``, other bytes ``{"hex": ...}``.
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: as_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, bytes):
        text = _text_of(value)
        return {"hex": value.hex()} if text is None else {"text": text}
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple | frozenset | set):
        return [as_json(item) for item in value]
    return value


def show_json(document: Mapping[str, Any]) -> None:
    """Write one JSON document to stdout."""
    click.echo(_json_text(document, indent=2))


def show_json_line(document: Any) -> None:
    """Write one JSON document as a line, for lists that may not fit into the reader's memory."""
    show_bytes(json_line(document))


def json_line(document: Any) -> bytes:
    """A JSON document as a line."""
    return f"{_json_text(document)}\n".encode(errors="backslashreplace")


def show_json_stream(document: Mapping[str, Any], name: str, entries: Iterable[Any]) -> None:
    """Write one JSON document whose last field is a list that need not fit into memory."""
    head = _json_text(document)[:-1]
    click.echo(f"{head}, {json.dumps(name)}: [", nl=False)
    for at, entry in enumerate(entries):
        click.echo("\n" if at == 0 else ",\n", nl=False)
        click.echo(_json_text(entry), nl=False)
    click.echo("\n]}")


def _json_text(value: Any, *, indent: int | None = None) -> str:
    """JSON text that stdout's encoding can represent; other characters are escaped."""
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    return json.dumps(as_json(value), indent=indent, ensure_ascii=encoding != "utf8")


# Tables ---------------------------------------------------------------------------------------------------------------


def show_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
    """Write a table to stdout.

    Args:
        columns: headings; ``>`` at the end aligns the column right, for numbers.
        rows: cells; None is shown as a dash.
        empty: the text to show if there are no rows.
    """
    cells = [[_cell(value) for value in row] for row in rows]
    if not cells:
        show(empty)
        return
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for column in columns:
        is_number = column.endswith(">")
        table.add_column(column.rstrip(">"), justify="right" if is_number else "left", overflow="fold")
    for row in cells:
        table.add_row(*row)
    _write(table)


def show_fields(pairs: Iterable[tuple[str, object]]) -> None:
    """Write names and values, one pair per line."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in pairs:
        table.add_row(name, _cell(value))
    _write(table)


def show(text: str = "") -> None:
    """Write a line of text to stdout."""
    click.echo(text)


def show_bytes(data: bytes) -> None:
    """Write all bytes to stdout; when it returns, they have left this process.

    Raises:
        BrokenPipeError: the reader closed the pipe.
    """
    sys.stdout.flush()
    rest = memoryview(data)
    while rest:
        # Without buffering (PYTHONUNBUFFERED), a write may write only a part, as when the reader leaves meanwhile.
        rest = rest[sys.stdout.buffer.write(rest) :]
    sys.stdout.buffer.flush()


def _write(table: Table) -> None:
    """Render for a terminal or a pipe, without trailing blanks."""
    is_terminal = sys.stdout.isatty()
    console = Console(
        file=sys.stdout,
        width=None if is_terminal else PIPE_WIDTH,
        color_system="auto" if is_terminal else None,
        markup=False,
        highlight=False,
        emoji=False,
    )
    with console.capture() as rendered:
        console.print(table)
    for line in rendered.get().splitlines():
        click.echo(line.rstrip())


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return printable(str(value.value if isinstance(value, Enum) else value))


# Words ----------------------------------------------------------------------------------------------------------------


def printable(text: str) -> str:
    """Text with control characters escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def readable(data: bytes | None) -> str:
    """A key or value: text in quotes, other bytes as hex, or null."""
    if data is None:
        return "null"
    text = _text_of(data)
    return f"0x{data.hex()}" if text is None else json.dumps(text, ensure_ascii=False)


def _text_of(data: bytes) -> str | None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return text if all(c.isprintable() or c in "\n\r\t" for c in text) else None


def duration(milliseconds: int | None) -> str | None:
    """Milliseconds in the two largest units that are not zero."""
    if milliseconds is None:
        return None
    if milliseconds < 1000:
        return f"{milliseconds}ms"
    seconds = milliseconds // 1000
    units = [(seconds // 86400, "d"), (seconds // 3600 % 24, "h"), (seconds // 60 % 60, "m"), (seconds % 60, "s")]
    first = next(at for at, (count, _) in enumerate(units) if count)
    return " ".join(f"{count}{unit}" for count, unit in units[first : first + 2] if count)


def size(size_bytes: int | None) -> str | None:
    """Bytes in the largest suitable unit."""
    if size_bytes is None:
        return None
    value = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{size_bytes} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def moment(timestamp_ms: int) -> str:
    """A time in ISO 8601 and UTC; the number itself if it is outside of the calendar."""
    try:
        return (
            datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        )
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms}ms"


def plural(count: int, noun: str) -> str:
    """A count with its noun."""
    several = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else several}"


def quoted(argument: str) -> str:
    """An argument quoted for a shell, so that a line can be copied and run."""
    if argument.isprintable():
        return shlex.quote(argument)
    escaped = argument.encode("unicode_escape").decode().replace("'", "\\'")
    return f"$'{escaped}'"


# Progress -------------------------------------------------------------------------------------------------------------


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar, if stderr is a terminal; yields a function that takes the done and the total count."""
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
