"""The errors of the search connector, under the branches of oncelog's error tree: they say what the caller does.

RetriableError
└── SearchUnavailableError      the store cannot be reached, or is too busy
FatalError
├── SearchAccessError           the store denies this process access, or is not trusted
├── IndexChangedError           the index of a decided batch no longer takes the batch's documents
└── StagingChangedError         the staging folder of a decided batch lacks its documents
"""

from __future__ import annotations

from oncelog.errors import FatalError, RetriableError


class SearchUnavailableError(RetriableError):
    """The store cannot be reached, or is too busy."""


class SearchAccessError(FatalError):
    """The store denies this process access, or is not trusted: check credentials, rights and certificates."""


class IndexChangedError(FatalError):
    """The index of a decided batch no longer takes the batch's documents: correct it, then restart the query."""


class StagingChangedError(FatalError):
    """The staging folder of a decided batch lacks its documents: restore it, then restart the query."""
