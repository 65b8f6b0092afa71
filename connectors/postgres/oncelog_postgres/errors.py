"""The errors of the PostgreSQL connector, under the branches of oncelog's error tree: they say what the caller does.

RetriableError
└── DatabaseUnavailableError    the database cannot be reached, or cannot serve this request now
FatalError
├── DatabaseAccessError         the database denies this role what it asks for
└── TableChangedError           the table of a decided batch no longer takes the batch's rows
"""

from __future__ import annotations

from oncelog.errors import FatalError, RetriableError


class DatabaseUnavailableError(RetriableError):
    """The database cannot be reached, or cannot serve this request now."""


class DatabaseAccessError(FatalError):
    """The database denies this role what it asks for: check its password and its rights."""


class TableChangedError(FatalError):
    """The table of a decided batch no longer takes the batch's rows: fix the table, then restart the query."""
