"""The error for a part of oncelog whose extra is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def extras(names: str, *, part: str) -> Iterator[None]:
    """Import an extra's packages in this block. If one is missing, the error says what to install.

    Args:
        names: the extras, separated by commas.
        part: the module of oncelog that needs them, as the user imports it.

    Raises:
        ModuleNotFoundError: a package is not installed. Python's own error would only name a package that the user
            never asked for.

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
