"""The version of this package. The build reads it from here; nothing else states it."""

__version__ = "0.1.0"
