"""The docs: generated parts, code blocks, and the names that they promise."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

import oncelog
from oncelog.cli import main
from oncelog.clients.accumulator import Receipt
from oncelog.clients.admin import Admin
from tests.style.tree import ROOT, files
from tests.support.docs.blocks import PROGRAMS, TEXTS, blocks, pages, programs

NOT_RUN_MOST = 6
"""Blocks of code that no test runs. Whoever raises this number has a good reason in the block's comment."""

README_LINES_MAX = 150
PICTURE_BYTES_MAX = 200_000

LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)")
"""A link to a file, without its anchor."""

FOLDER = re.compile(r"(?<![\w.])/(?:data|shared|tmp/oncelog)/[\w/-]+")
PREFIX = re.compile(r'transactionalIdPrefix", "([^"]+)"')

LOOKING_ON = {
    *(ROOT / "docs/operations/symptoms").glob("*.md"),
    ROOT / "docs/operations/moving.md",
    ROOT / "docs/index.md",
}
"""The runbook looks at what other pages wrote; the site's first page is the README's quick start."""

IMAGE = re.compile(r"apache/kafka:[\d.]+")
FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
LIST_ITEM = re.compile(r"\d+\. |- |::: ")
"""Its further lines are indented, as are the options of a generated part."""

CLASSES = {
    "Admin": Admin,
    "Consumer": oncelog.Consumer,
    "ConsumerRecord": oncelog.ConsumerRecord,
    "Log": oncelog.Log,
    "Producer": oncelog.Producer,
    "Receipt": Receipt,
}


def test_the_generated_parts_of_the_docs_are_up_to_date() -> None:
    found = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout + found.stderr


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= README_LINES_MAX


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_of_code_is_of_a_known_language_and_reads_as_such(page: Path) -> None:
    found = list(blocks(page))
    fences = len(re.findall(r"^ *```", page.read_text(), re.MULTILINE))
    assert fences == len(found) * 2, "a fence that is not read"
    for block in found:
        assert block.language in PROGRAMS | TEXTS.keys(), f"{block}: name the language, `text` for what is none"
        if block.language in TEXTS:
            TEXTS[block.language](block.code)


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_code_stands_between_fences_where_tests_find_it(page: Path) -> None:
    indented, is_in_list = [], False
    for line in FENCED.sub("", page.read_text()).splitlines():
        if line.strip() and not line.startswith(" "):
            is_in_list = LIST_ITEM.match(line) is not None
        if line.startswith("    ") and not is_in_list:
            indented.append(line)
    assert indented == []


def test_blocks_that_are_not_run_are_few_and_say_why(capsys: pytest.CaptureFixture[str]) -> None:
    left_out = [block for page in pages() for block in blocks(page) if block.reason is not None]
    with capsys.disabled():
        sys.stdout.writelines(f"\nnot run: {block}: {block.reason}" for block in left_out)
    assert len(left_out) <= NOT_RUN_MOST
    assert all(block.language in PROGRAMS for block in left_out)


def test_pages_write_to_folders_of_their_own_so_that_a_reader_may_run_them_in_any_order() -> None:
    found: dict[str, set[str]] = {}
    for page in pages():
        for block in programs(page) if page not in LOOKING_ON else ():
            for folder in FOLDER.findall(block.code):
                found.setdefault(folder, set()).add(page.stem)
    assert len(found) > 10
    assert {folder: names for folder, names in found.items() if len(names) > 1} == {}


def test_queries_on_kafka_have_prefixes_of_their_own() -> None:
    blocks_on_kafka = [block.code for page in pages() for block in programs(page) if "oncelog-kafka" in block.code]
    prefixes = [prefix for code in blocks_on_kafka for prefix in PREFIX.findall(code)]
    assert len(prefixes) > 2
    assert sorted(set(prefixes)) == sorted(prefixes)


def test_the_broker_of_the_guide_is_that_of_the_example_in_containers() -> None:
    guide, compose = (ROOT / "docs/guides/kafka.md").read_text(), (ROOT / "examples/compose/compose.yaml").read_text()
    named = IMAGE.findall(guide)
    assert named
    assert set(named) == set(IMAGE.findall(compose))


def test_commands_that_the_docs_name_exist() -> None:
    text = "\n".join(page.read_text() for page in pages())
    commands = re.findall(r"`oncelog((?: [a-z][a-z-]*)+)", text)
    assert len(commands) > 40
    assert [command for command in commands if not is_command(command.split())] == []


def is_command(words: list[str]) -> bool:
    command: click.Command = main
    context = click.Context(main)
    while isinstance(command, click.Group) and words:
        found = command.get_command(context, words.pop(0))
        if found is None:
            return False
        command = found
    return True


def test_targets_of_make_that_the_docs_name_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = {name: {""} for name in re.findall(r"^([a-z-]+):", makefile, re.MULTILINE)}
    for name, values in re.findall(r"^([a-z-]+)\.WHAT := (.+)$", makefile, re.MULTILINE):
        targets[name] |= set(values.split())
    named = {found for page in pages() for found in re.findall(r"`make ([a-z-]+)(?:\sWHAT=(\w+))?", page.read_text())}

    assert len(named) > 15
    assert [found for found in named if found[1] not in targets.get(found[0], ())] == []


def test_links_in_the_repository_lead_to_files() -> None:
    """Those of docs/ are looked at, with their anchors, when the site is built."""
    texts = {page: page.read_text() for page in files(".md") if not page.is_relative_to(ROOT / "docs")}
    links = [(page, link) for page, text in texts.items() for link in LINK.findall(text)]
    assert len(links) > 30
    assert [f"{page.relative_to(ROOT)}: {link}" for page, link in links if not (page.parent / link).exists()] == []


def test_the_pictures_of_the_readme_are_there_small_and_told_in_words() -> None:
    text = (ROOT / "README.md").read_text()
    pictures = [ROOT / path for path in re.findall(r'\b(?:src|srcset)="([^"]+)"', text)]
    assert {picture.name for picture in pictures} == {"make-run-light.webp", "make-run-dark.webp"}
    assert [picture.name for picture in pictures if picture.stat().st_size > PICTURE_BYTES_MAX] == []
    assert re.search(r'<img alt="Killed \d+ times, every row exactly once\. oncelog: lost 0, duplicated 0, ', text)


def test_the_names_that_users_of_other_clients_are_sent_to_exist() -> None:
    table = (ROOT / "docs" / "guides" / "from-kafka-python.md").read_text()
    names = re.findall(rf"`({'|'.join(CLASSES)})\.(\w+)", table)
    assert len(names) > 30
    missing = [f"{owner}.{name}" for owner, name in names if not has(CLASSES[owner], name)]
    assert missing == []


def has(owner: type, name: str) -> bool:
    return hasattr(owner, name) or name in inspect.get_annotations(owner) or name == "admin"
