"""What a part of oncelog says where a package that an extra brings is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def extras(names: str, *, part: str) -> Iterator[None]:
    """Import in this block what extras bring. Where it is missing, the error says what to install.

    Args:
        names: of the extras, separated by commas.
        part: of oncelog that needs them, as the user imports it.

    Raises:
        ModuleNotFoundError: a package is not installed. Python's own error would name one the user never asked for.

    Example:
        with extras("testing", part="oncelog.testing.simulation"):
            from greenlet import greenlet
    """
    try:
        yield
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        sentence = f'{part} needs the package {package}: pip install "oncelog[{names}]"'
        raise ModuleNotFoundError(sentence, name=missing.name) from None
