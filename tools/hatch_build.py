"""Checks for the jars when a wheel is built: without them it reads at half the speed and has no Kafka connector."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

JARS = (
    Path("python", "oncelog", "spark", "jars", "oncelog-spark.jar"),
    Path("connectors", "kafka", "oncelog_kafka", "jars", "oncelog-kafka.jar"),
)
CHOICE = "ONCELOG_WITHOUT_JARS"


class JarHook(BuildHookInterface[Any]):
    """Refuses a wheel without a jar. Editable installs are allowed, because they see the jars once they are built."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before the wheel is filled."""
        missing = [str(jar) for jar in JARS if not Path(self.root, jar).is_file()]
        if version == "editable" or not missing or os.environ.get(CHOICE):
            return
        self.app.abort(  # pip then prints this sentence without a traceback
            f"not built: {', '.join(missing)}; a wheel without the jars reads at half the speed and has no Kafka "
            f"connector. Run `make shims` first (it needs a JDK and Maven), or set {CHOICE}=1 to build a wheel of the "
            "Python parts alone"
        )
