"""What a znode operation may find instead of what its caller took for granted.

None of these reaches a user: `transact` turns a failed multi into another run of the step, and a step either handles
what its view raises or has a bug.
"""

from __future__ import annotations

from enum import StrEnum

from oncelog.errors import OncelogError


class Refusal(StrEnum):
    """Why an operation of a multi was refused; ZooKeeper's names."""

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
    """The step that wants to write read its znodes too long ago; nothing was applied."""


class NodeExistsError(OncelogError):
    """A step creates a znode that exists."""


class NoNodeError(OncelogError):
    """A step sets or deletes a znode that does not exist."""
