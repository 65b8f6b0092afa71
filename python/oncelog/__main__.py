"""``python -m oncelog`` runs the command ``oncelog``."""

from __future__ import annotations

from oncelog.cli import main

if __name__ == "__main__":
    main(prog_name="oncelog")
