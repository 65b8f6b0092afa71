"""The error for a part of oncelog whose extra is not installed, or is installed in a version that it cannot use."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata


@contextmanager
def extras(names: str, *, part: str) -> Iterator[None]:
    """Import an extra's packages in this block. If one cannot be used, the error says what to install.

    Args:
        names: the extras, separated by commas.
        part: the module of oncelog that needs them, as the user imports it.

    Raises:
        ModuleNotFoundError: a package is not installed, or its version lacks what is imported. Python's own error would
            only name a package, or a name in it, that the user never asked for.

    Example:
        with extras("zookeeper", part="oncelog.znodes.zookeeper"):
            import kazoo
    """
    try:
        yield
    except ImportError as missing:
        package = (missing.name or "").partition(".")[0]
        if package in {"", "oncelog"}:
            raise
        if isinstance(missing, ModuleNotFoundError) and missing.name == package:
            sentence = f"{part} needs the package {package}: {install(names)}"
        else:
            sentence = f"{part} cannot use {_installed(package)}: {install(names)}"
        raise ModuleNotFoundError(sentence, name=missing.name) from None


def install(names: str) -> str:
    """What to do about a missing extra. It names no index, as long as oncelog is on none.

    Args:
        names: the extras, separated by commas.
    """
    return f"install oncelog[{names}] as the README says"


def _installed(package: str) -> str:
    """What is installed of a package, and which versions oncelog asks for."""
    distributions = metadata.packages_distributions().get(package, [package])
    for line in metadata.requires("oncelog") or ():
        wanted = re.match(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?([^;]*);", line)
        if wanted and wanted[1] in distributions:
            return f"{wanted[1]} {metadata.version(wanted[1])}; it needs {wanted[1]}{wanted[2].strip()}"
    return f"the package {package} that is installed"
