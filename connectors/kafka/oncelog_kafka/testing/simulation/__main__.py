"""``python -m oncelog_kafka.testing.simulation``: runs seeds of the Kafka sink, or its scenes with every fault."""

from __future__ import annotations

import sys

from oncelog.testing.simulation.__main__ import run_command
from oncelog_kafka.testing.simulation.exhaustive import explore
from oncelog_kafka.testing.simulation.swarm import run

if __name__ == "__main__":
    sys.exit(run_command(sys.argv[1:], run, explore, "oncelog_kafka.testing.simulation", __doc__))
