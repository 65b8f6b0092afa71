"""Targets with a fault on purpose, by which the tests prove that the fuzzer finds one."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from random import Random

from tests.fuzz.target import Target, Verdict


class _Planted(Target):
    """Bytes of which those that hold an `x` meet the fault."""

    def prepare(self) -> None:
        pass

    def valid(self) -> Iterable[bytes]:
        return [b"valid"]

    def make(self, chance: Random) -> bytes:
        return bytes(chance.choices(b"abcdefghx", k=chance.randrange(10)))

    def check(self, data: bytes) -> Verdict:
        if b"x" in data:
            self.fault()
        return Verdict.CORRECT

    def fault(self) -> None:
        raise NotImplementedError


class Hangs(_Planted):
    name = "tests.fuzz.planted:Hangs"

    def fault(self) -> None:
        time.sleep(60)


class Dies(_Planted):
    name = "tests.fuzz.planted:Dies"

    def fault(self) -> None:
        os._exit(3)


class TakesAllMemory(_Planted):
    name = "tests.fuzz.planted:TakesAllMemory"

    def fault(self) -> None:
        bytearray(8 * 1024**3)


class RaisesWhatIsNotOurs(_Planted):
    name = "tests.fuzz.planted:RaisesWhatIsNotOurs"

    def fault(self) -> None:
        raise KeyError("of a library")
