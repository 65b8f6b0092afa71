"""Where Java is; light, for programs that tests start by the dozen."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

_INSTALLED = Path("/usr/lib/jvm")


def java() -> str | None:
    """The command that starts a JVM: that of JAVA_HOME, if it is set."""
    java_home = os.environ.get("JAVA_HOME")
    return shutil.which(Path(java_home, "bin", "java") if java_home else "java")


@cache
def java_of(least: int) -> str | None:
    """The command that starts a JVM of this version or a newer one: `java`, or another one of this machine."""
    found = [java(), *map(str, sorted(_INSTALLED.glob("*/bin/java")))]
    return next((command for command in found if command and _version(command) >= least), None)


def _version(command: str) -> int:
    told = subprocess.run([command, "-version"], capture_output=True, text=True, check=True).stderr
    number = re.search(r'version "(\d+)', told)
    return int(number.group(1)) if number else 0
