"""Errors of znode operations. Users never see them.

`transact` runs the step again after a failed multi. A step must handle the errors that its view raises; otherwise it
has a bug.
"""

from __future__ import annotations

from enum import StrEnum

from oncelog.errors import OncelogError


class Refusal(StrEnum):
    """Why an operation of a multi failed, in ZooKeeper's terms."""

    NO_NODE = "no node"
    NODE_EXISTS = "node exists"
    BAD_VERSION = "bad version"
    NOT_EMPTY = "not empty"


class MultiFailedError(OncelogError):
    """An operation's condition does not hold; nothing of the multi was applied."""

    def __init__(self, message: str, *, index: int, path: str, refusal: Refusal) -> None:
        super().__init__(message, index=index, path=path, refusal=refusal)
        self.index = index
        self.path = path
        self.refusal = refusal

    @classmethod
    def at(cls, index: int, path: str, refusal: Refusal) -> MultiFailedError:
        return cls("an operation of the multi was refused", index=index, path=path, refusal=refusal)


class StaleStepError(OncelogError):
    """A step's reads are too old for it to write; nothing was applied."""


class NodeExistsError(OncelogError):
    """A step tried to create a znode that exists."""


class NoNodeError(OncelogError):
    """A step tried to set or delete a znode that does not exist."""
