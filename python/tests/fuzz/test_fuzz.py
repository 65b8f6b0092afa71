"""The fuzzer itself: some inputs of each target are answered rightly, and every kind of planted fault is found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from json import JSONDecoder
from pathlib import Path
from random import Random
from typing import Any

import pytest

from oncelog import buckets
from oncelog.batches import fingerprint
from oncelog.checkpoints import positions
from oncelog.errors import CorruptDataError
from oncelog.log import codec, columns, index_files, segment
from oncelog.ports import Stat, Znode
from oncelog.spark import offsets, option_table
from oncelog.znodes import fields, paths, schemes
from oncelog.znodes.sqlite import connection, store
from oncelog.znodes.zookeeper import address
from tests.fuzz import engine, mutators, planted, targets
from tests.fuzz.engine import Finding, Slice
from tests.fuzz.target import Target, Verdict
from tests.fuzz.targets import data_files

INPUTS = 200
SEED = 1


@contextmanager
def prepared(name: str) -> Iterator[Target]:
    target = targets.by_name(name)
    target.prepare()
    try:
        yield target
    finally:
        target.close()


def findings(target: Target, inputs: int, *, enough: int = 1) -> list[Finding]:
    """What some inputs find, within this process; no more than `enough`."""
    found: list[Finding] = []
    for number in range(inputs):
        answer = engine.attempt(target, SEED, number, set())
        found += [answer] if isinstance(answer, Finding) else []
        if len(found) == enough:
            break
    return found


# Answers --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", targets.NAMES)
def test_every_input_is_refused_clearly_or_answered_correctly(name: str) -> None:
    with prepared(name) as target:
        assert findings(target, max(round(INPUTS * min(target.weight, 1)), 10)) == []


@pytest.mark.parametrize("name", targets.NAMES)
def test_every_input_that_is_not_mutated_is_answered_correctly(name: str) -> None:
    with prepared(name) as target:
        valid = list(target.valid())

        assert valid
        assert [target.check(data) for data in valid] == [Verdict.CORRECT] * len(valid)


@pytest.mark.parametrize("name", targets.NAMES)
def test_an_input_of_a_seed_is_the_same_in_every_process(name: str) -> None:
    with prepared(name) as one, prepared(name) as other:
        for number in range(20):
            assert engine.make_input(one, SEED, number) == engine.make_input(other, SEED, number)


# Planted faults of the product ----------------------------------------------------------------------------------------

Plant = Callable[[pytest.MonkeyPatch], None]


def _replaced(place: object, name: str, value: object) -> Plant:
    return lambda patched: patched.setattr(place, name, value)


def _crc_of_blocks_is_not_checked(patched: pytest.MonkeyPatch) -> None:
    right = segment._check_same

    def check(what: str, *rest: Any) -> None:
        if what != "crc32":
            right(what, *rest)

    patched.setattr(segment, "_check_same", check)


def _crc_of_rows_is_that_of_nothing(patched: pytest.MonkeyPatch) -> None:
    """Of writer and reader alike."""
    patched.setattr(codec, "_rows_crc32", lambda header, blocks: 0)


def _scan_ends_at_damage(patched: pytest.MonkeyPatch) -> None:
    def scan(*arguments: Any) -> Iterator[Any]:
        with suppress(CorruptDataError):
            yield from segment.scan_file(*arguments)

    patched.setattr(data_files, "scan_file", scan)


def _rows_need_not_be_sound(patched: pytest.MonkeyPatch) -> None:
    for name in ("_are_blocks", "_are_entries", "_are_siblings"):
        patched.setattr(index_files, name, lambda rows: True)


def _values_of_the_store_have_any_type(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(store, "_znode", lambda row: Znode(row[0], Stat(*row[1:])))
    patched.setattr(store, "_name", lambda value: value)
    patched.setattr(connection, "_translated", lambda error, path, is_commit=False: error)


def _options_are_any_number(patched: pytest.MonkeyPatch) -> None:
    rows = (replace(row, parse=int) if row.name == "maxOffsetsPerTrigger" else row for row in option_table.OPTIONS)
    patched.setattr("oncelog.spark.options.OPTIONS", tuple(rows))


def _topic_is_cut(patched: pytest.MonkeyPatch) -> None:
    rows = (replace(row, parse=lambda text: text[:3]) if row.name == "topic" else row for row in option_table.OPTIONS)
    patched.setattr("oncelog.spark.options.OPTIONS", tuple(rows))


def _first_row_is_lost(patched: pytest.MonkeyPatch) -> None:
    right = columns.decode
    patched.setattr(columns, "decode", lambda *given: right(*given).slice(1))


FAULTS: dict[str, tuple[str, Plant]] = {
    "the CRC of a block is not checked": ("data-block", _crc_of_blocks_is_not_checked),
    "the first row of a block is lost": ("data-block-content", _first_row_is_lost),
    "a scan ends at damage without an error": ("data-file", _scan_ends_at_damage),
    "the CRC of rows is not checked": ("rows-file", _crc_of_rows_is_that_of_nothing),
    "rows need not follow each other": ("rows-file-content", _rows_need_not_be_sound),
    "numbers of a payload are converted": (
        "payload-partition",
        _replaced(fields, "number", lambda value, least=0, most=0: int(value)),
    ),
    "texts of a payload are converted": ("payload-ledger", _replaced(fields, "text", str)),
    "flags of a payload are converted": ("payload-group", _replaced(fields, "flag", bool)),
    "of a field that stands twice the last one counts": ("payload-owner", _replaced(paths, "_JSON", JSONDecoder())),
    "any digits are a number in a path": ("znode-path", _replaced(paths, "is_number", str.isdigit)),
    "values of the SQLite file have any type": ("sqlite-file", _values_of_the_store_have_any_type),
    "of a partition that stands twice the last one counts": (
        "source-offset",
        _replaced(offsets, "without_duplicates", dict),
    ),
    "an offset on Kafka may be any number": (
        "offset-log-file",
        _replaced(positions, "_is_offset", lambda number, offset: True),
    ),
    "the order of names counts in a fingerprint": (
        "fingerprint",
        _replaced(fingerprint, "_canonical", lambda text: text),
    ),
    "a number of an option may have any sign": ("source-options", _options_are_any_number),
    "a text of an option is cut": ("sink-options", _topic_is_cut),
    "the system's refusal to look gets out": ("path", _replaced(schemes, "is_there", Path.exists)),
    "folders of a bucket may lead upwards": ("bucket-url", _replaced(buckets, "parts_of", lambda name: [name])),
    "a chroot of any characters is taken": ("zookeeper-url", _replaced(address, "split_path", lambda path: None)),
}
"""What is broken, and the target that must find it."""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_of_the_product_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, plant = FAULTS[fault]
    plant(monkeypatch)
    with prepared(name) as target:
        assert findings(target, 3000)


# Planted faults of a target, in processes -----------------------------------------------------------------------------


def run(target: type[Target], inputs: int) -> engine.Report:
    work = iter([Slice(target.name, SEED, 0, inputs // 2), Slice(target.name, SEED, inputs // 2, inputs)])
    return engine.fuzz(work, 1, hang_s=0.5, memory_bytes=2**30)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("target", "kind"),
    [
        (planted.Dies, "crash"),
        (planted.TakesAllMemory, "memory"),
        (planted.RaisesWhatIsNotOurs, "foreign exception"),
    ],
)
def test_what_kills_a_process_or_is_no_error_of_ours_is_found_and_the_rest_runs(
    target: type[Target], kind: str
) -> None:
    report = run(target, 12)

    assert {found.kind for found in report.findings.values()} == {kind}
    assert all(b"x" in found.data for found in report.findings.values())
    assert report.inputs[target.name] == 12
    assert report.correct[target.name] > 0


def test_a_hang_is_found_and_the_rest_runs() -> None:
    first = next(at for at in range(100) if b"x" in engine.make_input(planted.Hangs(), SEED, at))
    work = iter([Slice(planted.Hangs.name, SEED, max(first - 3, 0), first + 1)])

    report = engine.fuzz(work, 1, hang_s=0.5)

    (found,) = report.findings.values()
    assert (found.kind, found.number) == ("hang", first)
    assert report.inputs[planted.Hangs.name] == min(first, 3) + 1


def test_a_finding_is_made_smaller_and_kept_and_can_be_replayed(tmp_path: Path) -> None:
    target = planted.RaisesWhatIsNotOurs()
    (found,) = findings(target, 100)
    path = found.write(tmp_path)

    assert found.data == b"x"
    assert Finding.read(path) == found
    assert f"--targets {target.name} --seed {SEED} --input {found.number}" in found.command()
    assert engine.judge(target, Finding.read(path).data) == (found.kind, found.what)


# Parts ----------------------------------------------------------------------------------------------------------------


def test_every_target_gets_its_share_of_the_inputs_and_no_input_comes_twice() -> None:
    names = ["data-block", "rows-file", "sqlite-file"]
    work = list(engine.slices(names, SEED, 3000))
    numbers = {name: [n for one in work if one.target == name for n in range(one.start, one.end)] for name in names}

    weights = {name: targets.by_name(name).weight for name in names}
    assert all(numbers[name] == list(range(len(numbers[name]))) for name in names)
    assert {name: len(numbers[name]) for name in names} == {
        name: round(3000 * weight / sum(weights.values())) for name, weight in weights.items()
    }


@pytest.mark.parametrize("number", [0, 1, -1, 63, 64, -65, 2**31, -(2**31), 2**62, -(2**63)])
def test_a_varint_reads_back(number: int) -> None:
    assert mutators.zigzag_read(mutators.varint(number)) == number


def test_mutated_json_is_mostly_json_and_mostly_another() -> None:
    text = b'{"a":[1,{"b":null}],"c":"x"}'
    made = [mutators.mutated_json(Random(at), text, [mutators.parsed(text)]) for at in range(300)]

    assert sum(one == text for one in made) < 60
    assert sum(_is_json(one) for one in made) > 150


def _is_json(data: bytes) -> bool:
    try:
        mutators.parsed(data)
    except (ValueError, RecursionError):
        return False
    return True
