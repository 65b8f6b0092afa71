"""Offsets in checkpoints: the source's own, and what other sources of a query logged."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from random import Random

from oncelog.batches.fingerprint import fingerprint
from oncelog.checkpoints import positions
from oncelog.errors import CorruptDataError, UnsupportedFormatError
from oncelog.spark.kit import offset_log
from oncelog.spark.kit.offset_log import Entry
from oncelog.spark.offsets import SourceOffset, TopicOffsets, is_source_offset, parse_offset
from oncelog.types import MAX_LONG
from tests.fuzz.mutators import Pairs, mutated, mutated_json, parsed
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


class OffsetLogFile(Target):
    """A file of a checkpoint's offset log, and what the offsets in it mean.

    Oracle: what is read is the same file when it is written again. An offset on Kafka or of a log is read alike when it
    is written for another checkpoint; every offset of it is a number that a source writes.
    """

    name = "offset-log-file"

    def prepare(self) -> None:
        own = [offset.to_json() for offset in OFFSETS]
        kafka = ['{"a":{"0":5,"10":0},"@absent":{"b":{"1":7}},"@topicIds":{"a":"i"}}', '{"a":{"0":5}}', "{}", "-", "7"]
        entries = [
            Entry("v1", "{}", dict(enumerate_texts([*own, *kafka]))),
            Entry("v2", "{}", {"a": own[1], "b:": None}),
        ]
        self.written = [entry.to_text().encode() for entry in entries]

    def valid(self) -> Iterable[bytes]:
        return self.written

    def make(self, chance: Random) -> bytes:
        return mutated(chance, chance.choice(self.written), self.written)

    def check(self, data: bytes) -> Verdict:
        text = data.decode(errors="replace")
        try:
            entry = offset_log.parse(text, "offsets/0")
            found = [positions.read(one, {"a": "first"}) for one in entry.offsets.values() if one is not None]
        except CorruptDataError:
            return Verdict.REFUSED
        except UnsupportedFormatError as error:
            expect(error.fields["version"] > 1, "a version that is not newer is refused as newer", **error.fields)
            return Verdict.REFUSED
        expect(entry.to_text() == text, "an entry was converted", again=entry.to_text())
        for position in found:
            again = positions.read(positions.written(position, {}), {})
            where = [(name, dict(topic.offsets)) for name, topic in sorted(position.everywhere.items())]
            expect(
                where == [(name, dict(topic.offsets)) for name, topic in sorted(again.everywhere.items())],
                "a position was converted",
                again=again,
            )
            numbers = [number for _, offsets in where for pair in offsets.items() for number in pair]
            expect(all(0 <= number <= MAX_LONG for number in numbers), "an offset that no source writes")
        return Verdict.CORRECT


def enumerate_texts(texts: Iterable[str]) -> Iterable[tuple[str, str | None]]:
    """Offsets by their position in a plan."""
    return ((str(position), None if text == "-" else text) for position, text in enumerate(texts))


TARGETS: dict[str, Callable[[], Target]] = {kind.name: kind for kind in (SourceOffsetText, Fingerprint, OffsetLogFile)}
