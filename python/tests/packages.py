"""Packages that register znode stores, in the form in which pip leaves them behind: a module and its metadata."""

from __future__ import annotations

from pathlib import Path

from oncelog.znodes import schemes


def install(site: Path, package: str, entries: dict[str, str], module: str | None = None) -> None:
    """Put a package into a folder where Python looks.

    Args:
        site: the folder, which is created.
        package: its name; its module is ``<package>_store``.
        entries: the entry point of each scheme.
        module: the text of its module; without one its entries name modules that are there already.
    """
    metadata = site / f"{package}-1.0.dist-info"
    metadata.mkdir(parents=True)
    if module is not None:
        (site / f"{package}_store.py").write_text(module)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = [f"{name} = {entry}" for name, entry in entries.items()]
    (metadata / "entry_points.txt").write_text("\n".join([f"[{schemes.GROUP}]", *lines]) + "\n")
