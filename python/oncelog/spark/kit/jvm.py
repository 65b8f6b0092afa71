"""Classes of oncelog's jars, as the driver calls them."""

from __future__ import annotations

from functools import reduce
from typing import Any


def find_class(jvm: Any, name: str) -> Any | None:
    """A class that Spark has loaded from a jar; None if it has not.

    Args:
        jvm: py4j's view of the JVM.
        name: with its package.
    """
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # not there under Spark Connect

    loader = jvm.Thread.currentThread().getContextClassLoader()
    try:
        loader.loadClass(name)
    except Py4JError:
        return None
    return reduce(getattr, name.split("."), jvm)
