"""The jars of Hadoop's own servers for tests, from Maven."""

from __future__ import annotations

import shutil
from pathlib import Path

from oncelog.testing import maven
from tests.support.harness.parts import missing_part, require_java

VERSION = "3.5.0"
ARTIFACTS = (
    ("org.apache.hadoop", "hadoop-client-minicluster", VERSION),
    # What its classes are made with, and its own list leaves out.
    ("org.bouncycastle", "bcpkix-jdk18on", "1.78.1"),
    ("org.junit.jupiter", "junit-jupiter-api", "5.14.4"),
    ("org.slf4j", "slf4j-reload4j", "1.7.36"),
)


def require_hadoop() -> Path:
    """The folder of the jars."""
    require_java()
    if shutil.which("mvn") is None and not maven.kept_jars("yarn", VERSION).is_dir():
        missing_part("Maven", "install it: it brings the jars of Hadoop's servers")
    return maven.jars("yarn", VERSION, ARTIFACTS)
