"""All targets, by name."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec

from tests.fuzz.target import Target
from tests.fuzz.targets import data_files, log, offsets, options, row_files, sqlite_file, uris, znode_payloads

_MAKERS: dict[str, Callable[[], Target]] = {
    **data_files.TARGETS,
    **row_files.TARGETS,
    **znode_payloads.TARGETS,
    **sqlite_file.TARGETS,
    **offsets.TARGETS,
    **options.TARGETS,
    **uris.TARGETS,
    **log.TARGETS,
}
if find_spec("oncelog_kafka") is not None:
    from tests.fuzz.targets import kafka

    _MAKERS |= kafka.TARGETS

NAMES = tuple(_MAKERS)


def by_name(name: str) -> Target:
    """A new target; ``module:Class`` names one that is not in the list."""
    if ":" in name:
        module, _, maker = name.partition(":")
        found: Target = getattr(import_module(module), maker)()
        return found
    return _MAKERS[name]()
