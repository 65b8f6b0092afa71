"""Offsets in checkpoints: the source's own, and what other sources of a query logged."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from random import Random

from oncelog.errors import CorruptDataError, UnsupportedFormatError
from oncelog.spark.kit.fingerprint import fingerprint
from oncelog.spark.offsets import SourceOffset, TopicOffsets, is_source_offset, parse_offset
from tests.fuzz.mutators import Pairs, mutated_json, parsed
from tests.fuzz.target import Target, Verdict, expect, expect_typed
from tests.fuzz.targets.znode_payloads import canonical

OFFSETS = [
    SourceOffset("c1", None),
    SourceOffset("c1", "größe", {"flights": TopicOffsets("0a1b", {0: 5, 1: 2**63 - 1, 10: 0})}),
    SourceOffset("c1", "g", {name: TopicOffsets(name * 2, {0: 1}) for name in ("a", "b", "ä")}),
]
OTHERS = ['{"topic":{"0":5}}', "0", "-", '{"logOffset":0}', '{"a":{"b":[1,2,{"c":null}]}}']


class SourceOffsetText(Target):
    """The offset of the source as Spark hands it back, as text and as an object.

    Oracle: what is read is the same JSON when it is written again (no field dropped or converted, no partition twice),
    typed and within bounds; the object that Spark makes of the text is read alike. What is refused names what was
    found. Whether it is one of this source's can be asked of any text.
    """

    name = "source-offset"

    def prepare(self) -> None:
        self.written = [offset.to_json().encode() for offset in OFFSETS]
        self.trees = [parsed(text) for text in (*self.written, *map(str.encode, OTHERS[3:]))]

    def valid(self) -> Iterable[bytes]:
        return self.written

    def make(self, chance: Random) -> bytes:
        return mutated_json(chance, chance.choice(self.written), self.trees)

    def check(self, data: bytes) -> Verdict:
        text = data.decode("utf-8", "surrogatepass") if _is_text(data) else data.decode("latin-1")
        is_ours = is_source_offset(text)
        try:
            offset = parse_offset(text)
        except CorruptDataError as error:
            expect(error.fields["found"] == text, "the error names another text")
            return Verdict.REFUSED
        except UnsupportedFormatError as error:
            expect(error.fields["version"] > 1, "a version that is not newer is refused as newer", **error.fields)
            return Verdict.REFUSED
        expect(is_ours, "an offset was read that is not the source's")
        expect_typed(offset)
        expect(canonical(parsed(text)) == canonical(parsed(offset.to_json())), "an offset was converted", again=offset)
        expect(parse_offset(json.loads(text)) == offset, "Spark's object reads otherwise than its text")
        expect(parse_offset(offset.to_json()).to_json() == offset.to_json(), "the text of an offset is not one")
        return Verdict.CORRECT


def _is_text(data: bytes) -> bool:
    try:
        data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


class Fingerprint(Target):
    """The fingerprint of a batch between any two texts that sources logged.

    Oracle: texts that are the same JSON, whatever the order of their names, have one fingerprint; any two others have
    different ones.
    """

    name = "fingerprint"

    def prepare(self) -> None:
        self.written = [*(offset.to_json().encode() for offset in OFFSETS), *map(str.encode, OTHERS)]
        self.trees = [parsed(text) for text in self.written if not text.startswith(b"-")]

    def valid(self) -> Iterable[bytes]:
        return self.written

    def make(self, chance: Random) -> bytes:
        return mutated_json(chance, chance.choice([text for text in self.written if text != b"-"]), self.trees)

    def check(self, data: bytes) -> Verdict:
        text = data.decode("utf-8", "surrogatepass") if _is_text(data) else data.decode("latin-1")
        found = fingerprint([None], [text])
        expect(found == fingerprint([None], [text]), "two fingerprints of one batch")
        expect(found != fingerprint([text], [None]), "start and end are taken for each other")
        expect(found != fingerprint([None], [text + "x"]), "two texts of one fingerprint")
        try:
            tree = parsed(text)
        except (ValueError, RecursionError):
            return Verdict.CORRECT
        if isinstance(tree, Pairs) and len({name for name, _ in tree}) == len(tree):
            turned = json.dumps(dict(reversed(json.loads(text).items())), indent=1)
            expect(found == fingerprint([None], [turned]), "the order of names counts")
        return Verdict.CORRECT


TARGETS: dict[str, Callable[[], Target]] = {kind.name: kind for kind in (SourceOffsetText, Fingerprint)}
