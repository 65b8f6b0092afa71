"""Imports every module of the installed oncelog, and prints how many. Needs all extras."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterator

PACKAGES = (
    "oncelog",
    "oncelog_files",
    "oncelog_kafka",
    "oncelog_postgres",
    "oncelog_search",
    "oncelog_tables",
    "pyspark_oncelog",
    "pyspark_oncelog_kafka",
)


def modules(package: str) -> Iterator[str]:
    """The names of a package and of all below it. Modules that are run, and not imported, are left out."""
    yield package
    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
        if not module.name.endswith("__main__"):
            yield module.name


def main() -> None:
    imported = [importlib.import_module(name) for package in PACKAGES for name in modules(package)]
    sys.stdout.write(f"{len(imported)} modules\n")


if __name__ == "__main__":
    main()
