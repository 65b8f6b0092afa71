"""The metadata of a package that names the repository: its addresses, and the README with links that lead there."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_PAGE = re.compile(r"\]\((?!https?:|#)")
"""The beginning of ``[text](docs/page.md)``."""

_PICTURE = re.compile(r'\b(src|srcset)="(?!https?:)')
"""The beginning of ``<img src="docs/images/picture.png">``."""


class RepositoryHook(MetadataHookInterface):
    """Sets ``urls`` and ``readme``, from the repository that python/oncelog/version.py names."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Called before a wheel or an sdist is filled."""
        versions = runpy.run_path(str(Path(self.root, "python", "oncelog", "version.py")))
        repository, readme = versions["REPOSITORY"], Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["urls"] = urls(repository)
        text = linked(readme, repository, versions["__version__"])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def urls(repository: str) -> dict[str, str]:
    """The addresses that an index shows beside a package; none before there is a repository."""
    if not repository:
        return {}
    return {
        "Source": repository,
        "Changelog": f"{repository}/blob/main/CHANGELOG.md",
        "Issues": f"{repository}/issues",
        "Security": f"{repository}/security/policy",
    }


def linked(readme: str, repository: str, version: str) -> str:
    """The README as an index shows it: what it links to is that of the release."""
    if not repository:
        return readme
    pages = _PAGE.sub(f"]({repository}/blob/v{version}/", readme)
    return _PICTURE.sub(rf'\1="{repository}/raw/v{version}/', pages)
