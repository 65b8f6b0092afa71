"""The errors of the files connector, under the branches of oncelog's error tree: they say what the caller does.

FatalError
└── FolderChangedError          the folder of a decided batch lacks its files, or has others in their way
"""

from __future__ import annotations

from oncelog.errors import FatalError


class FolderChangedError(FatalError):
    """The folder of a decided batch lacks its files, or has others in their way: correct it, then restart the query."""
