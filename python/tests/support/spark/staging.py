"""What sinks leave in the folder that they stage in."""

from __future__ import annotations

from pathlib import Path

from oncelog.spark.kit import staged_names


def left_staging(folder: Path) -> list[str]:
    """The attempts that have a staging folder."""
    return sorted(path.name for path in (folder / staged_names.STAGING).glob("*/*"))
