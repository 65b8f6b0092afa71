"""``python -m simulation.targets``: runs seeds, or scenarios with every pause of a driver."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from simulation.__main__ import run_command
from simulation.targets import exhaustive
from simulation.targets.swarm import PROGRAM, run


def main(arguments: Sequence[str]) -> int:
    """Run what the arguments ask for. Returns 0 if no law was broken."""
    return run_command(arguments, run, exhaustive.explore, PROGRAM, __doc__)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
