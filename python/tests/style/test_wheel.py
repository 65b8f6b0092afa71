"""The wheel as a stranger meets it: built from the sources, installed into an empty environment, and used there."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

from oncelog.version import REPOSITORY, __version__
from tests.style.tree import ROOT
from tests.support.harness.environments import install, plain_variables, require_index
from tests.support.harness.parts import missing_part

pytestmark = [pytest.mark.slow, pytest.mark.sampled("packages")]

JARS = (
    Path("python", "oncelog", "spark", "jars", "oncelog-spark.jar"),
    Path("connectors", "kafka", "oncelog_kafka", "jars", "oncelog-kafka.jar"),
)


HATCH_METADATA = runpy.run_path(str(ROOT / "tools" / "hatch_metadata.py"))
"""What fills in the metadata of a wheel."""

METADATA = f"oncelog-{__version__}.dist-info/METADATA"

LINK = re.compile(r"""\]\(([^)#]+)|\bsrc(?:set)?="([^"]+)""")
"""Where the README leads: of Markdown, and of an image by HTML."""


def run(*command: str | Path, cwd: Path, is_refused: bool = False, **more: str) -> str:
    variables = {**plain_variables(), **more}
    done = subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True, check=False)
    output = done.stdout + done.stderr
    if done.returncode != 0 and "pip" in command:
        require_index(output)
    assert (done.returncode != 0) is is_refused, output
    return output if is_refused else done.stdout


def build(sources: Path, folder: Path, *, is_refused: bool = False, **more: str) -> str:
    """Build a wheel into `folder`, as `pip install` of a clone does; returns the output."""
    command = (sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", folder, sources)
    return run(*command, cwd=folder, is_refused=is_refused, **more)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not all((ROOT / jar).is_file() for jar in JARS):
        missing_part("the jars for Spark", "make shims")
    folder = tmp_path_factory.mktemp("wheel")
    build(ROOT, folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ``bin`` folder of an environment with the wheel and what it depends on, and nothing else."""
    environment = tmp_path_factory.mktemp("environment")
    venv.create(environment, with_pip=True)
    programs = environment / "bin"
    install(programs / "python", str(wheel))
    return programs


def test_the_wheel_holds_its_packages_with_type_markers_and_the_jars_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()

    assert {name.split("/")[0] for name in names} == {
        "oncelog", "oncelog_files", "oncelog_kafka", "oncelog_postgres", "oncelog_search", "oncelog_tables",
        "pyspark_oncelog", "pyspark_oncelog_kafka",
        f"oncelog-{__version__}.dist-info",
    }  # fmt: skip
    typed = ("oncelog", "oncelog_files", "oncelog_kafka", "oncelog_postgres", "oncelog_search", "oncelog_tables")
    assert {f"{package}/py.typed" for package in typed} <= set(names)
    assert {"oncelog/spark/jars/oncelog-spark.jar", "oncelog_kafka/jars/oncelog-kafka.jar"} <= set(names)
    assert {"pyspark_oncelog/__init__.py", "pyspark_oncelog_kafka/__init__.py"} <= set(names)


def test_a_wheel_has_the_readme_and_the_addresses_of_the_repository_once_there_are_any(wheel: Path) -> None:
    metadata = message_from_bytes(zipfile.ZipFile(wheel).read(METADATA))

    named = dict(url.split(", ", 1) for url in metadata.get_all("Project-URL", []))
    assert named == HATCH_METADATA["urls"](REPOSITORY)
    readme = HATCH_METADATA["linked"]((ROOT / "README.md").read_text(), REPOSITORY, __version__)
    (_, _, description) = zipfile.ZipFile(wheel).read(METADATA).decode().partition("\n\n")
    assert description.strip() == readme.strip()


def test_the_readme_on_an_index_leads_to_files_of_this_release() -> None:
    forge = "https://forge.example/oncelog"
    description = HATCH_METADATA["linked"]((ROOT / "README.md").read_text(), forge, __version__)
    of_release = re.compile(rf"{re.escape(forge)}/(?:blob|raw)/v{__version__}/(.+)")

    links = ["".join(found) for found in LINK.findall(description)]
    files = [found[1] for link in links if (found := of_release.fullmatch(link))]
    assert len(files) > 20
    assert [file for file in files if not (ROOT / file).exists()] == []
    assert [link for link in links if not link.startswith("https://")] == []


def test_no_wheel_is_built_without_the_jars_unless_that_is_asked_for(tmp_path: Path) -> None:
    sources, wheels = tmp_path / "sources", tmp_path / "wheels"
    wheels.mkdir()
    packages = (
        "python/oncelog",
        "python/pyspark_oncelog",
        "connectors/kafka/oncelog_kafka",
        "connectors/kafka/pyspark_oncelog_kafka",
        "connectors/postgres/oncelog_postgres",
        "connectors/files/oncelog_files",
        "connectors/tables/oncelog_tables",
        "connectors/search/oncelog_search",
    )
    for part in (*packages, "tools"):
        shutil.copytree(ROOT / part, sources / part, ignore=shutil.ignore_patterns("jars", "__pycache__"))
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, sources / file)

    assert "make shims" in build(sources, wheels, is_refused=True)
    assert list(wheels.glob("*.whl")) == []

    build(sources, wheels, ONCELOG_WITHOUT_JARS="1")
    (built,) = wheels.glob("*.whl")
    assert not [name for name in zipfile.ZipFile(built).namelist() if name.endswith(".jar")]


def test_the_build_shows_what_maven_says_without_codes_for_colours(capfd: pytest.CaptureFixture[str]) -> None:
    says = r"import sys; print('\x1b[1mERROR\x1b[0m: no'); print('\x1b[0m', end='', file=sys.stderr); sys.exit(3)"

    assert runpy.run_path(str(ROOT / "tools" / "build-shims"))["run"](sys.executable, "-c", says) == 3
    assert capfd.readouterr() == ("ERROR: no\n", "")


def test_the_installed_command_states_the_version_of_the_wheel(programs: Path, tmp_path: Path) -> None:
    assert __version__ in run(programs / "oncelog", "--version", cwd=tmp_path)


def test_an_installation_without_spark_is_sound_and_says_what_spark_needs(programs: Path, tmp_path: Path) -> None:
    assert "install oncelog[spark]" in run(programs / "oncelog", "doctor", cwd=tmp_path)

    jars = subprocess.run([programs / "oncelog", "jars"], capture_output=True, text=True, check=False)
    assert (jars.returncode, jars.stderr.count("\n")) == (2, 1)
    assert "install oncelog[spark" in jars.stderr


def test_a_transaction_makes_its_way_through_an_installed_log(programs: Path, tmp_path: Path) -> None:
    output = run(programs / "python", ROOT / "tools" / "first_transaction.py", tmp_path / "log", cwd=tmp_path)

    assert output == "[b'hello']\n"


def test_the_installed_wheel_loads_whole_and_copies_a_topic_with_spark(wheel: Path, tmp_path: Path) -> None:
    """The extras are those of the tests' own environment, which takes no minute to install them."""
    python = tmp_path / "environment" / "bin" / "python"
    venv.create(tmp_path / "environment")
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", wheel, cwd=tmp_path)
    (packages,) = tmp_path.glob("environment/lib/python*/site-packages")
    (packages / "extras.pth").write_text(sysconfig.get_path("purelib"))
    program = shutil.copy(ROOT / "examples" / "quick_start.py", tmp_path)

    assert int(run(python, ROOT / "tools" / "every_module.py", cwd=tmp_path).split()[0]) > 250
    assert str(packages) in run(python, "-c", "import oncelog; print(oncelog.__file__)", cwd=tmp_path)
    assert "UA was 42 minutes late" in run(python, program, cwd=tmp_path)


def test_the_installed_packages_agree_with_each_other(programs: Path, tmp_path: Path) -> None:
    run(programs / "python", "-m", "pip", "check", cwd=tmp_path)
