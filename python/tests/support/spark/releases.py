"""What differs among the releases of Spark that the tests run on (`make versions`)."""

from __future__ import annotations

from importlib.metadata import version

import pytest

RELEASE = tuple(int(number) for number in version("pyspark").split(".")[:2])

since_4_2 = pytest.mark.skipif(RELEASE < (4, 2), reason="a habit of Spark since 4.2")
since_4_3 = pytest.mark.skipif(RELEASE < (4, 3), reason="a habit of Spark since 4.3")
