"""The version of this package and the address of its repository. The build reads them from here."""

__version__ = "0.1.0"

REPOSITORY = ""
"""Where its source is published, such as ``https://forge.example/oncelog/oncelog``; empty until it is."""
