"""Where Java is; light, for programs that tests start by the dozen."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def java() -> str | None:
    """The command that starts a JVM: that of JAVA_HOME, if it is set."""
    java_home = os.environ.get("JAVA_HOME")
    return shutil.which(Path(java_home, "bin", "java") if java_home else "java")
