"""Looks for the Kafka connector's jar when a wheel is built: a wheel without it could not write to Kafka."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

JAR = Path("connectors", "kafka", "oncelog_kafka", "jars", "oncelog-kafka.jar")
CHOICE = "ONCELOG_WITHOUT_KAFKA"


class JarHook(BuildHookInterface):
    """Refuses a wheel that lacks the jar. Editable installs may: they see it once it is built."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before anything is put into the wheel."""
        if version == "editable" or Path(self.root, JAR).is_file() or os.environ.get(CHOICE):
            return
        raise FileNotFoundError(
            f"{JAR} is not built, and a wheel without it has no Kafka connector; run `make shims` first (it needs a "
            f"JDK and Maven), or set {CHOICE}=1 to build a wheel for the embedded log alone"
        )
