"""The errors of the connector for tables, under the branches of oncelog's error tree: they say what the caller does.

RetriableError
└── TableUnavailableError       the table's storage or catalog cannot be reached, or others commit all the time
FatalError
└── TableChangedError           the table of a decided batch no longer takes the batch's files
"""

from __future__ import annotations

from oncelog.errors import FatalError, RetriableError


class TableUnavailableError(RetriableError):
    """The table's storage or its catalog cannot be reached now, denies access, or others commit all the time."""


class TableChangedError(FatalError):
    """The table of a decided batch no longer takes the batch's files: fix the table, then restart the query."""
