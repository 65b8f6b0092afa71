"""A disk that can be full: a small file system in memory where we may mount one, else errors that are injected.

Injected are errors of `os.fsync` in every Python process of the run, Spark's workers included (site/sitecustomize.py).
"""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

SIZE_MB = 1024
FLAG = "ONCELOG_SOAK_FULL"
SITE = Path(__file__).parent / "site"


class Disk:
    """Where the log of a run is.

    Attributes:
        folder: on it.
        kind: what it is, for people.
        environment: of the programs that use it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment: dict[str, str] = {}
        folder.mkdir(parents=True)
        self._flag = folder.with_name("disk.full")
        mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MB}m", "oncelog-soak", str(folder)]
        try:
            self._is_mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
        except FileNotFoundError:
            self._is_mounted = False
        if self._is_mounted:
            self.kind = f"tmpfs of {SIZE_MB} MB, filled"
        else:
            self.kind = "injected ENOSPC of fsync (nothing can be mounted here)"
            paths = [str(SITE), *filter(None, [os.environ.get("PYTHONPATH")])]
            self.environment = {FLAG: str(self._flag), "PYTHONPATH": os.pathsep.join(paths)}

    @property
    def _filler(self) -> Path:
        return self.folder / "filler"

    def fill(self) -> None:
        """Leave no room."""
        if not self._is_mounted:
            self._flag.touch()
            return
        with self._filler.open("ab", buffering=0) as file:
            for size in (1 << 22, 1 << 12):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise

    def free(self) -> None:
        """Give the room back. Repeating it is harmless."""
        self._flag.unlink(missing_ok=True)
        self._filler.unlink(missing_ok=True)

    def close(self) -> None:
        """Take it away, with all that is on it."""
        if self._is_mounted:
            _unmount(self.folder)
            self._is_mounted = False


def remove_leftovers(folder: Path) -> None:
    """Take away the disks below a folder that a run left which was killed."""
    mounted = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for place in map(Path, mounted):
        if folder in place.parents:
            _unmount(place)


def _unmount(folder: Path) -> None:
    subprocess.run(["umount", "--lazy", str(folder)], capture_output=True, check=False)
