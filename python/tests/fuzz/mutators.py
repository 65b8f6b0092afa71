"""Mutations of bytes and of JSON. All chance comes from the given generator: the same seed gives the same input.

Bytes are changed where a format breaks most easily: single bits, bytes and numbers of interesting values, lengths and
other varints, cut, repeated and foreign parts. JSON is changed as a tree, and written with what a library would refuse
to write: a name twice, half a surrogate pair, infinities, numbers of thousands of digits, arrays within arrays.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from oncelog.testing import extremes

NUMBERS = [
    *(2, 7, 15, 16, 31, 32, 63, 64, 100, 1000, 1024, 4096, 2**24, 2**62, -2),
    *extremes.INTEGERS,
]


# Bytes ----------------------------------------------------------------------------------------------------------------


def mutated(chance: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """`data` after one to four mutations; parts of `others` may be spliced in."""
    for _ in range(chance.choice((1, 1, 1, 2, 3, 4))):
        data = chance.choice(_ON_BYTES)(chance, data, others)
    return data


def _place(chance: Random, data: bytes) -> int:
    return chance.randrange(len(data) + 1)


def _range(chance: Random, data: bytes) -> tuple[int, int]:
    start = _place(chance, data)
    return start, min(start + chance.choice((1, 1, 2, 4, 8, 16, 64, 256, 4096)), len(data))


def _flip_bit(chance: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    if not data:
        return data
    at = chance.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]


def _set_byte(chance: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    at = _place(chance, data)
    return data[:at] + bytes([chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))]) + data[at + 1 :]


def _set_number(chance: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    size: int = chance.choice((2, 4, 8))
    number: int = chance.choice(NUMBERS) % (1 << 8 * size)
    at = _place(chance, data)
    return data[:at] + number.to_bytes(size, chance.choice(("little", "big"))) + data[at + size :]


def _set_varint(chance: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Replace the varint that may begin at some place by another number: Avro's counts and lengths are such."""
    at = _place(chance, data)
    end = at
    while end < len(data) and data[end] & 0x80 and end - at < 9:
        end += 1
    near = zigzag_read(data[at : end + 1]) + chance.choice((-2, -1, 1, 2))
    return data[:at] + varint(chance.choice((near, chance.choice(NUMBERS)))) + data[end + 1 :]


def _delete(chance: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    start, end = _range(chance, data)
    return data[:start] + data[end:]


def _repeat(chance: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    start, end = _range(chance, data)
    return data[:end] + data[start:end] * chance.choice((1, 1, 2, 16)) + data[end:]


def _insert(chance: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    at = _place(chance, data)
    inserted = chance.choice((*_BYTES, *(chance.randbytes(size) for size in (1, 2, 8, 32) * 4)))
    return data[:at] + inserted + data[at:]


def _zero(chance: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    start, end = _range(chance, data)
    return data[:start] + chance.choice((b"\0", b"\xff")) * (end - start) + data[end:]


def _truncate(chance: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    return data[: _place(chance, data)]


def _splice(chance: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    other = chance.choice(others)
    if chance.random() < 0.5:
        return data[: _place(chance, data)] + other[_place(chance, other) :]
    start, end = _range(chance, other)
    at = _place(chance, data)
    return data[:at] + other[start:end] + data[at + chance.choice((0, end - start)) :]


_BYTES = [data for data in extremes.BYTES if len(data) < extremes.LONG_SIZE]

OnBytes = Callable[[Random, bytes, Sequence[bytes]], bytes]

_ON_BYTES: Sequence[OnBytes] = (
    *(_flip_bit, _flip_bit, _set_byte, _set_byte, _set_number, _set_varint, _set_varint),
    *(_delete, _repeat, _insert, _zero, _truncate, _splice),
)


def varint(number: int) -> bytes:
    """Avro's long; also one of more than 64 bits, which no writer writes."""
    rest = number << 1 if number >= 0 else (-number << 1) - 1
    data = bytearray()
    while rest > 0x7F:
        data.append(rest & 0x7F | 0x80)
        rest >>= 7
    data.append(rest)
    return bytes(data)


def zigzag_read(data: bytes) -> int:
    rest = sum((byte & 0x7F) << 7 * at for at, byte in enumerate(data))
    return (rest >> 1) ^ -(rest & 1)


# JSON -----------------------------------------------------------------------------------------------------------------


class Pairs(list[tuple[str, Any]]):
    """A JSON object as its pairs, so that a name may stand twice."""


@dataclass(frozen=True)
class Raw:
    """Text that stands in the JSON as it is."""

    text: str


_EXTREMES: Sequence[Any] = [
    *(None, True, False, "x", "0", "-1", "7", "00", "٣", "²", "1_0", " 1", "a/b", "-", "é" * 300),
    *([], [[]], [None], [1], ["x", 2], Pairs(), Pairs([("", None)]), Pairs([("a", 1)]), 1.0, 1.5),
    *(text for text in extremes.TEXTS if len(text) < extremes.LONG_SIZE),
    *(*extremes.HALF_TEXTS, *extremes.NAMES, *extremes.FLOATS),
    *map(Raw, ("1e999", "-0", '"\\ud800"', '"\\udfff\\ud800"', '"\\u0000"')),
    *(Raw("9" * 30), Raw("9" * 5000), Raw("[" * 2000 + "]" * 2000), Raw("[" * 200_000), Raw('{"a":' * 3000 + "1")),
]


def parsed(text: str | bytes) -> Any:
    return json.loads(text, object_pairs_hook=Pairs)


def written(node: Any) -> str:
    """A tree as compact JSON text."""
    match node:
        case Raw(text):
            return text
        case Pairs():
            return "{" + ",".join(f"{json.dumps(key)}:{written(value)}" for key, value in node) + "}"
        case list():
            return "[" + ",".join(map(written, node)) + "]"
        case _:
            return json.dumps(node)


def mutated_tree(chance: Random, tree: Any, others: Sequence[Any]) -> Any:
    """A tree of `parsed` after one to three mutations; the given ones stay as they are."""
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        tree = _mutated_at(chance, tree, chance.choice(_places(tree)), others)
    return tree


def mutated_json(chance: Random, text: bytes, trees: Sequence[Any]) -> bytes:
    """JSON text after mutations of its tree or, now and then, of its bytes."""
    if chance.random() < 0.2:
        return mutated(chance, text, [written(tree).encode() for tree in chance.sample(trees, min(len(trees), 3))])
    return written(mutated_tree(chance, parsed(text), trees)).encode("utf-8", "surrogatepass")


Place = tuple[int, ...]
"""Which child of the root, which child of that one ..."""


def _children(node: Any) -> list[Any]:
    if isinstance(node, Pairs):
        return [value for _, value in node]
    return node if isinstance(node, list) else []


def _places(tree: Any) -> list[Place]:
    found: list[Place] = [()]
    for at, child in enumerate(_children(tree)):
        found += [(at, *below) for below in _places(child)]
    return found


def _node_at(tree: Any, place: Place) -> Any:
    for at in place:
        tree = _children(tree)[at]
    return tree


def _with_children(node: Any, change: Callable[[list[Any]], None]) -> Any:
    changed = type(node)(node)
    change(changed)
    return changed


def _mutated_at(chance: Random, tree: Any, place: Place, others: Sequence[Any]) -> Any:
    """The tree with its node at `place` changed; what leads there is copied."""
    if len(place) > 1:
        at, *below = place
        return _with_child(tree, at, _mutated_at(chance, _children(tree)[at], tuple(below), others))
    if not place or chance.random() < 0.6:
        value = _other_value(chance, _node_at(tree, place), others)
        return value if not place else _with_child(tree, place[0], value)
    return _with_children(tree, lambda children: _rearrange(chance, children, place[0]))


def _with_child(node: Any, at: int, child: Any) -> Any:
    def change(children: list[Any]) -> None:
        children[at] = (children[at][0], child) if isinstance(node, Pairs) else child

    return _with_children(node, change)


def _rearrange(chance: Random, children: list[Any], at: int) -> None:
    """Drop, repeat, rename or exchange one of the children."""
    other = chance.randrange(len(children))
    match chance.randrange(5):
        case 0:
            del children[at]
        case 1:
            children.insert(other, children[at])
        case 2 if isinstance(children, Pairs):
            name = chance.choice((children[other][0], "version", "more", "", children[at][0].upper()))
            children[at] = (name, children[at][1])
        case 3 if isinstance(children, Pairs):
            children.append((children[at][0], children[other][1]))  # its name twice
        case _:
            children[at], children[other] = children[other], children[at]


def _other_value(chance: Random, value: Any, others: Sequence[Any]) -> Any:
    match chance.randrange(6):
        case 0:
            return chance.choice(NUMBERS)
        case 1:
            return [value]
        case 2:
            other = chance.choice(others)
            return _node_at(other, chance.choice(_places(other)))
        case 3 if type(value) is int:
            return chance.choice(
                (value + 1, value - 1, -value, value * 2, str(value), float(value % 2**53), value + 0.5)
            )
        case 3 if type(value) is str and value:
            return mutated_text(chance, value)
        case _:
            return chance.choice(_EXTREMES)


# Text -----------------------------------------------------------------------------------------------------------------

_CHARACTERS = [*"/\\%.,:;?&#=@[](){}*+-_ \t\n\0'\"0129aZ", *"é٣²\u2028\ud800\udfff\uf8ff\U0001f600\ufeff\x85"]


def mutated_text(chance: Random, text: str, others: Sequence[str] = ()) -> str:
    """Text after one to three mutations."""
    for _ in range(chance.choice((1, 1, 2, 3))):
        at = chance.randrange(len(text) + 1)
        end = at + chance.choice((0, 1, 1, 4, 100))
        match chance.randrange(6):
            case 0:
                text = text[:at] + text[end:]
            case 1:
                text = text[:end] + text[at:end] * chance.choice((1, 3, 50)) + text[end:]
            case 2:
                text = text[:at] + chance.choice(_CHARACTERS) * chance.choice((1, 1, 2, 300)) + text[at:]
            case 3:
                text = text[:at] + str(chance.choice((*NUMBERS, 10**30, "9" * 5000))) + text[end:]
            case 4 if others:
                other = chance.choice(others)
                text = chance.choice((other, text[:at] + other, other[: len(other) // 2] + text[at:]))
            case _:
                text = text[:at] + chance.choice(_CHARACTERS) + text[end:]
    return text
