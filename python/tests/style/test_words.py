"""Rules for every text of the repository."""

from __future__ import annotations

import re
from pathlib import Path

from tests.style.tree import ROOT, files, place

# What belongs to one machine or one network, not to the project. Registries are named by their clients' settings.
PRIVATE = re.compile(
    r"(?<![\w.])/(?:home|root|Users|work)/\w"
    r"|\bpypi\.org\b|\bpythonhosted\.org\b|\brepo1?\.maven\b|\bregistry\.npmjs\b|\bproxy\.golang\b|\bcrates\.io\b"
    r"|--(?:extra-)?index-url|--find-links|--trusted-host",
)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)(?: \"[^\"]*\")?\)")
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def lines_of(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        return []  # golden files and pictures


def broken_links(path: Path) -> list[str]:
    text = CODE.sub("", path.read_text(encoding="utf-8"))
    targets = [target.partition("#")[0] for target in LINK.findall(text) if not re.match(r"[a-z]+:", target)]
    return [f"{path.relative_to(ROOT)} -> {target}" for target in targets if not (path.parent / target).exists()]


def test_no_file_names_a_private_path_or_a_registry_host() -> None:
    private = [
        f"{place(path, number)}: {line.strip()}"
        for path in files()
        if path != Path(__file__)
        for number, line in enumerate(lines_of(path), start=1)
        if PRIVATE.search(line)
    ]

    assert private == []


def test_every_link_between_documents_leads_somewhere() -> None:
    documents = list(files(".md"))

    assert ROOT / "README.md" in documents
    assert [link for path in documents for link in broken_links(path)] == []
