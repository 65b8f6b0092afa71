"""``python -m simulation.kafka``: runs seeds of the Kafka sink, or its scenes with every fault."""

from __future__ import annotations

import sys

from simulation.__main__ import run_command
from simulation.kafka.exhaustive import explore
from simulation.kafka.swarm import run

if __name__ == "__main__":
    sys.exit(run_command(sys.argv[1:], run, explore, "simulation.kafka", __doc__))
