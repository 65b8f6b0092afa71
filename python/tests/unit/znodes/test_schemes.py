"""The schemes of stores: other packages join by an entry point, and what goes wrong there says which package."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

import oncelog
from oncelog import metadata, runtime
from oncelog.cli import main
from oncelog.errors import InvalidOptionError, UsageError
from oncelog.znodes.schemes import ZNODES_FILE, Place
from tests import packages
from tests.style.tree import ROOT

SECRET = "correct-horse-battery"

SHELF = """
import re
from pathlib import Path
from oncelog.errors import InvalidOptionError
from oncelog.znodes.schemes import Scheme
from oncelog.znodes.sqlite import SqliteZnodeStore

def normalised(url, root):
    if not re.fullmatch("shelf:[^?]+([?]key=.*)?", url):
        raise InvalidOptionError("not the URL of a shelf", expected="shelf:/a/folder?key=...")
    place, _, key = url.removeprefix("shelf:").partition("?")
    return f"shelf:{Path(place).absolute()}?{key}"

def file(url):
    return Path(url.removeprefix("shelf:").partition("?")[0]) / "shelf"

SCHEME = Scheme(
    open=lambda url, create: SqliteZnodeStore(file(url), create=create),
    normalised=normalised,
    shown=lambda url: url.partition("?")[0],
    is_there=lambda url: file(url).exists(),
    is_lasting="brief" not in __name__,
)
"""
"""A store on another one's shoulders, whose URLs hold secrets."""

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs a package that registers a scheme."""

    def installed(package: str, scheme: str, *, module: str = SHELF, registers: str = "SCHEME") -> None:
        site = tmp_path / "site" / package
        packages.install(site, package, {scheme: f"{package}_store:{registers}"}, module)
        monkeypatch.syspath_prepend(site)

    return installed


def refused(path: Path, znodes: str) -> dict[str, object]:
    """What the error of opening a log says."""
    with pytest.raises(UsageError) as caught:
        oncelog.open(path / "log", znodes)
    assert not (path / "log").exists()
    assert SECRET not in str(caught.value)
    return {"message": caught.value.args[0], **caught.value.fields}


# Stores of other packages


def test_a_store_of_another_package_is_opened_by_its_url(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("shelves", "shelf")
    monkeypatch.chdir(tmp_path)

    with oncelog.open(tmp_path / "log", f"shelf:store?key={SECRET}") as log:
        log.create_topic("flights")
        assert log.znodes == f"shelf:{tmp_path}/store?key={SECRET}"  # what tasks with other folders open
        with oncelog.open(log.path, log.znodes, create=False) as opened:
            assert [topic.topic for topic in opened.admin.list_topics()] == ["flights"]
    assert (tmp_path / "store" / "shelf").exists()
    assert not (tmp_path / "log" / ZNODES_FILE).exists()


def test_a_ledger_is_kept_in_a_store_of_another_package(install: Install, tmp_path: Path) -> None:
    install("shelves", "shelf")
    place = f"shelf:{tmp_path}/ledger"

    with pytest.raises(UsageError, match="there is no log or ledger in the store that znodes names"):
        metadata.open_metadata(place, create=False)
    metadata.open_metadata(place).close()
    metadata.open_metadata(place, create=False).close()
    assert (tmp_path / "ledger" / "shelf").exists()


@pytest.mark.parametrize("form", ["{}/store", "file:{}/store", "./store", "~/store"])
def test_a_folder_holds_the_znodes_of_a_log_and_a_ledger_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    place = form.format(tmp_path)

    with oncelog.open(tmp_path / "log", place) as log:
        assert log.znodes == f"sqlite:{tmp_path}/store/{ZNODES_FILE}"  # what tasks with other folders open
    metadata.open_metadata(place, create=False).close()

    assert (tmp_path / "store" / ZNODES_FILE).exists()
    assert not (tmp_path / "log" / ZNODES_FILE).exists()


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("store", r"not a znode store: give a folder \(./name\)"),
        ("", "not a znode store"),
        ("sqlit", "did_you_mean='sqlite'"),
        ("h1:2181,h2:2181", "write='zk://h1:2181,h2:2181'"),
    ],
)
def test_a_place_that_may_be_a_mistake_is_refused_for_a_log_and_a_ledger_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(UsageError, match=message):
        oncelog.open("log", place)
    with pytest.raises(UsageError, match=message):
        metadata.open_metadata(place)

    assert list(tmp_path.iterdir()) == []


def test_a_url_that_the_package_does_not_take_opens_nothing(install: Install, tmp_path: Path) -> None:
    install("shelves", "shelf")

    assert refused(tmp_path, "shelf:")["expected"] == "shelf:/a/folder?key=..."


def test_the_folder_of_a_log_whose_metadata_is_elsewhere_starts_no_other_log(install: Install, tmp_path: Path) -> None:
    install("shelves", "shelf")
    oncelog.open(tmp_path / "log").close()

    with pytest.raises(UsageError, match="metadata is elsewhere") as caught:
        oncelog.open(tmp_path / "log", f"shelf:{tmp_path}/store?key={SECRET}")

    assert caught.value.fields["missing"] == f"shelf:{tmp_path}/store"
    assert not (tmp_path / "store").exists()


def test_metadata_is_copied_into_a_store_of_another_package_and_no_secret_is_shown(
    install: Install, tmp_path: Path
) -> None:
    install("shelves", "shelf")
    oncelog.open(tmp_path / "log").close()
    to = f"shelf:{tmp_path}/store?key={SECRET}"

    def run(*arguments: str) -> str:
        done = CliRunner().invoke(main, ["--path", str(tmp_path / "log"), *arguments])
        assert (done.exit_code, done.stderr) == (0, "")
        return done.output

    assert f"--znodes shelf:{tmp_path}/store\n" in run("meta", "copy", "--to", to)
    shown = json.loads(run("meta", "show", "--znodes", to, "--json"))
    assert shown["log"]["znodes"] == f"shelf:{tmp_path}/store"


def test_metadata_is_not_copied_into_a_store_that_ends_with_its_process(install: Install, tmp_path: Path) -> None:
    install("brief", "shelf")
    with (
        oncelog.open(tmp_path / "log") as log,
        pytest.raises(UsageError, match="name one that lasts") as caught,
    ):
        runtime.copy_metadata(log, f"shelf:{tmp_path}/store?key={SECRET}")
    assert SECRET not in str(caught.value)


def test_a_store_that_belongs_to_no_host_cannot_be_adopted(install: Install, tmp_path: Path) -> None:
    install("shelves", "shelf")
    place = f"shelf:{tmp_path}/store?key={SECRET}"
    oncelog.open(tmp_path / "log", place).close()

    with pytest.raises(UsageError, match="belongs to no host") as caught:
        metadata.adopt_host(tmp_path / "log", place)
    assert SECRET not in str(caught.value)


# What goes wrong


@pytest.mark.parametrize(("scheme", "near"), [("sqlite3", "sqlite"), ("zkk", "zk"), ("shelve", "shelf")])
def test_an_unknown_scheme_lists_the_known_ones_and_the_nearest(
    install: Install, tmp_path: Path, scheme: str, near: str
) -> None:
    install("shelves", "shelf")

    found = refused(tmp_path, f"{scheme}://{SECRET}@host/log")

    assert found["known"] == ["kafka", "memory", "postgres", "postgresql", "s3", "shelf", "sqlite", "zk"]
    assert (found["scheme"], found["did_you_mean"]) == (scheme, near)


def test_a_mistyped_scheme_of_a_ledger_is_an_error_and_never_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for place in ("zkk://host:2181/ledger", "sqlite3:/a/file"):
        with pytest.raises(UsageError, match="not a znode store"):
            metadata.open_metadata(place)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("module", ["import nowhere", "raise RuntimeError('nowhere')"])
def test_a_package_that_cannot_be_imported_is_named(install: Install, tmp_path: Path, module: str) -> None:
    install("broken", "shelf", module=module)

    found = refused(tmp_path, "shelf:/a")

    assert (found["package"], found["entry_point"]) == ("broken", "broken_store:SCHEME")
    assert "nowhere" in str(found["reason"])


def test_a_package_that_registers_something_else_is_named(install: Install, tmp_path: Path) -> None:
    install("strange", "shelf", registers="SqliteZnodeStore")

    assert refused(tmp_path, "shelf:/a")["package"] == "strange"


@pytest.mark.parametrize("scheme", ["sqlite", "zk", "postgresql", "memory"])
def test_a_package_that_claims_a_built_in_scheme_is_named(install: Install, tmp_path: Path, scheme: str) -> None:
    install("greedy", scheme)

    found = refused(tmp_path, scheme)

    assert (found["scheme"], found["packages"]) == (scheme, ["greedy"])
    assert "oncelog has built in" in str(found["message"])


def test_two_packages_that_claim_one_scheme_are_both_named(install: Install, tmp_path: Path) -> None:
    install("first", "shelf")
    install("second", "shelf")

    assert refused(tmp_path, "shelf:/a")["packages"] == ["first", "second"]


def test_a_store_in_memory_has_no_place(tmp_path: Path) -> None:
    with pytest.raises(InvalidOptionError, match="write only memory"):
        oncelog.open(tmp_path, "memory:/a/file")


def test_a_relative_file_is_the_same_store_in_every_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert str(Place.of("sqlite:a/file", "/data/log")) == f"sqlite:{tmp_path}/a/file"


@pytest.mark.slow
def test_the_built_in_schemes_are_there_without_the_metadata_of_an_installation(tmp_path: Path) -> None:
    """As from Spark's py-files: oncelog is in a zip, and nothing says that it is installed."""
    with zipfile.ZipFile(tmp_path / "oncelog.zip", "w") as archive:
        for file in (ROOT / "python" / "oncelog").rglob("*.py"):
            archive.write(file, file.relative_to(ROOT / "python"))
    site = tmp_path / "site"
    site.mkdir()
    for path in map(Path, sys.path):
        for package in path.glob("*") if path.name == "site-packages" else ():
            if not package.name.startswith(("oncelog", "_oncelog", "__editable__")):
                (site / package.name).symlink_to(package)
    script = f"""
import sys
sys.path[:0] = [{str(tmp_path / "oncelog.zip")!r}, {str(site)!r}]
import importlib.metadata
import oncelog
assert not [found for found in importlib.metadata.distributions() if found.name == "oncelog"]
assert "oncelog.zip" in oncelog.__file__
oncelog.open({str(tmp_path / "log")!r}, "sqlite").close()
oncelog.open({str(tmp_path / "other")!r}, "memory").close()
"""
    done = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
