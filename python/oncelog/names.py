"""Names that users choose: transactional ids, groups, prefixes. Checked at the door, before anything is written."""

from __future__ import annotations

from oncelog import limits
from oncelog.errors import UsageError
from oncelog.znodes import paths


def check_name(kind: str, name: object) -> str:
    """A name that a znode's path can hold.

    Args:
        kind: what it names, for the error: "transactional id", "group id".
        name: any text that is not empty.

    Raises:
        UsageError: it is no text, empty, holds half a surrogate, or is too long.
    """
    if not isinstance(name, str) or not name:
        raise UsageError(f"a {kind} is text, and not empty", found=repr(name))
    try:
        size_bytes = len(paths.segment(name))
    except UnicodeEncodeError:
        raise UsageError(f"a {kind} is text that can be encoded; half a surrogate cannot", found=repr(name)) from None
    if size_bytes > limits.MAX_NAME_BYTES:
        raise UsageError(
            f"the {kind} is too long; what is no letter or digit counts three times a byte",
            found=f"{name[:100]}...",
            size_bytes=size_bytes,
            maximum_bytes=limits.MAX_NAME_BYTES,
        )
    return name
