"""What holds of every log at every moment: `oncelog.testing.invariants`, under the name that tests know it by."""

from __future__ import annotations

from oncelog.testing.invariants import check, leaks, settle_all, violations

__all__ = ["check", "leaks", "settle_all", "violations"]
