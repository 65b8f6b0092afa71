"""How a test cites the laws that it proves."""

from __future__ import annotations

import re

LAWS = range(1, 69)
CITATION = re.compile(r"\bconformance: (\d+(?:, \d+)*)\.?$")  # as in "conformance: 22, 23."
