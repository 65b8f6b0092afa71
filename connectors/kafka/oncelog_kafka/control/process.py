"""The process of Java's client: one line of JSON asks, and one answers.

It runs `io.oncelog.kafka.control.Main` from the connector's jar. It is a separate process because the driver, the
commands and Spark's Python workers share no JVM. The first line contains the settings. The process ends when its input
or its parent does. If it died, or was killed because it did not answer, the next request starts it again. What became
of the request is unknown then, as if a broker had not answered.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import astuple
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from oncelog.errors import InvalidOptionError, OncelogError, UsageError
from oncelog_kafka import packaging
from oncelog_kafka.errors import BrokerAccessError, BrokerUnavailableError, KafkaInternalsError
from oncelog_kafka.options.admin_settings import JVM_PROPERTIES, JavaClient

_CLASS = "io.oncelog.kafka.control.Main"
_STOP_S = 10

ANSWER_S = 300
"""How long the process may take to answer. Java gives up on brokers far earlier: one that takes longer does not run."""

_ERRORS: Mapping[str, tuple[type[OncelogError], str]] = {
    "UNAVAILABLE": (
        BrokerUnavailableError,
        "the Kafka brokers cannot be reached, or do not answer; check kafka.bootstrap.servers",
    ),
    "ACCESS": (
        BrokerAccessError,
        "the Kafka brokers do not allow this; check the credentials and the ACLs of this user",
    ),
    "SETTINGS": (InvalidOptionError, "the settings of the Kafka client are wrong"),
    "UNKNOWN_CLIENT": (
        KafkaInternalsError,
        "the Kafka client is not the one that this connector knows; use the connector's own jar unchanged",
    ),
}


class ControlProcess:
    """Java's client in a process of its own; thread-safe, one request at a time. Get it from `process_of`."""

    def __init__(self, client: JavaClient) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._users = 0
        self._process: subprocess.Popen[bytes] | None = None

    def add_user(self) -> None:
        """Start the process for one more user. Raises as `process_of`."""
        with self._lock:
            self._started()
            self._users += 1

    def remove_user(self) -> None:
        """End the process if this was its last user."""
        with self._lock:
            self._users -= 1
            if not self._users:
                self._stop()

    def ask(self, what: str, **fields: object) -> Any:
        """The answer to a request, which io.oncelog.kafka.control.Requests knows by this name."""
        with self._lock:
            return self._exchange(self._started(), {"ask": what, **fields})

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self._stop()
        # The settings contain passwords, so they go through the pipe: everybody can see a command line.
        self._process = subprocess.Popen(
            _command(self._client), stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        opening = {"settings": dict(self._client.settings), "connectTimeoutMs": self._client.connect_timeout_ms}
        try:
            self._exchange(self._process, opening)
        except BaseException:
            self._stop()
            raise
        return self._process

    def _exchange(self, process: subprocess.Popen[bytes], request: Mapping[str, object]) -> Any:
        if process.stdin is None or process.stdout is None:
            raise BrokerUnavailableError("the process of the driver's Kafka client is closed")
        began_s = time.monotonic()
        overdue = threading.Timer(ANSWER_S, process.kill)  # ends a wait for the answer, and one for room in the pipe
        overdue.daemon = True
        overdue.start()
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BaseException as problem:
            self._stop()  # the next request would take a late answer for its own
            if isinstance(problem, OSError):
                line = b""
            else:
                raise
        finally:
            overdue.cancel()
            overdue.join()
        if not line.endswith(b"\n"):
            self._stop()
            is_late = time.monotonic() - began_s >= ANSWER_S
            ended = "did not answer, and was killed" if is_late else "ended"
            raise BrokerUnavailableError(
                f"the process of the driver's Kafka client {ended}", exit_code=process.returncode
            )
        answer = json.loads(line)
        if "failure" in answer:
            kind, what = _ERRORS[answer["failure"]]
            servers = dict(self._client.settings).get("bootstrap.servers")
            raise kind(what, problem=answer["problem"], servers=servers)
        return answer["answer"]

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()  # it has no state that could be lost
        process.wait(_STOP_S)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):  # closing fails if unsent data cannot be flushed
                    pipe.close()


class ProcessUser:
    """One of those who share a process. `close` may be called again."""

    def __init__(self, process: ControlProcess) -> None:
        self.process = process
        self._is_open = True
        process.add_user()

    def ask(self, what: str, **fields: object) -> Any:
        """See `ControlProcess.ask`."""
        return self.process.ask(what, **fields)

    def close(self) -> None:
        """End the process, unless others use it."""
        if self._is_open:
            self._is_open = False
            self.process.remove_user()


_processes: dict[tuple[int, str], ControlProcess] = {}


def process_of(client: JavaClient) -> ProcessUser:
    """A process with these settings, which the transactions and the ledger of a sink share.

    Raises:
        UsageError: Java, Spark or the connector's jar is missing.
        InvalidOptionError: the client cannot be created with these settings.
        BrokerUnavailableError, BrokerAccessError: no broker answers, or the brokers refuse this client.
    """
    key = (os.getpid(), repr(astuple(client)))  # a fork has its own
    return ProcessUser(_processes.setdefault(key, ControlProcess(client)))


# Java -----------------------------------------------------------------------------------------------------------------


def _command(client: JavaClient) -> list[str]:
    """The command that starts the process, with the Java that Spark would use."""
    class_path = [packaging.jars(), *client.jars, *_jars_of_spark(), str(_spark_jars() / "*")]
    return [
        _java(),
        "-Xmx256m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        *(f"-D{name}={value}" for name, value in {**_properties_of_spark(), **dict(client.properties)}.items()),
        "-cp",
        os.pathsep.join(class_path),
        _CLASS,
        str(os.getpid()),
    ]


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if found is None or not os.access(found, os.X_OK):
        raise UsageError(
            "these kafka.* options need Java where the driver runs: set JAVA_HOME, or put java on the PATH",
            java_home=home,
        )
    return found


def _spark_jars() -> Path:
    home = os.environ.get("SPARK_HOME")
    if home:
        return Path(home) / "jars"
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise UsageError(
            "these kafka.* options need Spark's jars: install oncelog[spark], or set SPARK_HOME",
        )
    return Path(spec.origin).parent / "jars"


def _properties_of_spark() -> dict[str, str]:
    """Those of `JVM_PROPERTIES` that the JVM of the Spark in this process has; they name the files with its login."""
    context = _spark_here()
    if context is None or context._jvm is None:
        return {}
    system = context._jvm.java.lang.System
    found = {name: system.getProperty(name) for name in JVM_PROPERTIES}
    return {name: value for name, value in found.items() if value}


def _jars_of_spark() -> list[str]:
    """The user's jars of the Spark in this process; one of them may contain the class of a login."""
    context = _spark_here()
    if context is None:
        return []
    conf = context.getConf()
    named = [urlparse(one.strip()) for one in conf.get("spark.jars", "").split(",") if one.strip()]
    local = [unquote(one.path) for one in named if one.scheme in {"", "file", "local"}]
    return [*local, *filter(None, conf.get("spark.driver.extraClassPath", "").split(os.pathsep))]


def _spark_here() -> Any:
    """The context of the Spark that this process started; None if there is none."""
    if importlib.util.find_spec("pyspark") is None:
        return None
    from pyspark import SparkContext

    return SparkContext._active_spark_context
