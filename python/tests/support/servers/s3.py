"""A real S3 server for tests: moto in server mode, a process of its own, all in memory.

moto speaks the protocol over HTTP as far as pyarrow's SDK asks for it (puts, multipart uploads, ranges, lists, and
access control where a test switches it on), comes from PyPI and starts in a second.

The fixture `s3` is one server for all tests of a module that imports it, and `bucket` one for all tests of a run that
keep znodes in it; `url()` is a place no other test has. Tests that stop or pause a server start their own by
`running_server`; those that cut connections put a `Cutter` before it.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path

import pytest

from oncelog.znodes.clock import wall_ms
from tests.support.harness.parts import missing_part
from tests.support.harness.waiting import until

_SERVER = Path(__file__).with_name("moto_server.py")
BUCKET = "logs"
SECRET = "a-secret-of-the-tests"
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "tests",
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}
"""Credentials as users give them, and nothing of the machine's own."""


class S3Server:
    """One server process that listens on 127.0.0.1 and has a bucket.

    Args:
        folder: for its output.
        has_access_control: whether it lets nobody in; otherwise it takes any credentials.
        has_tls: whether it speaks TLS, with the certificate `certificate` that nobody else vouches for.
    """

    def __init__(self, folder: Path, *, has_access_control: bool = False, has_tls: bool = False) -> None:
        self.certificate = folder / "server.pem" if has_tls else None
        self._output = folder / "server.out"
        self._settings = {"INITIAL_NO_AUTH_ACTION_COUNT": "1"} if has_access_control else {}
        self._numbers = itertools.count()
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()

    def url(self, *, port: int | None = None, **options: object) -> str:
        """A place in the bucket that no other test has; through another port if one is given."""
        scheme = "https" if self.certificate else "http"
        settings = {"endpoint": f"{scheme}://127.0.0.1:{port or self.port}", "region": "us-east-1", **options}
        query = "&".join(f"{name}={value}" for name, value in settings.items())
        return f"s3://{BUCKET}/test/{next(self._numbers)}?{query}"

    def start(self) -> None:
        command = [sys.executable, str(_SERVER), "-H", "127.0.0.1", "-p", str(self.port)]
        if self.certificate:
            make_certificate(self.certificate)
            command += ["-c", str(self.certificate), "-k", str(self.certificate)]
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                env={**os.environ, **self._settings},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        until(self._serves, tell=self._last_output)

    def requests(self) -> list[tuple[str, str]]:
        """Method and path, with its query, of every request so far."""
        return re.findall(r"(DELETE|GET|HEAD|POST|PUT) (/\S*) HTTP/", self._output.read_text())

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def stop(self) -> None:
        """Kill the process, and wait for its end."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _signal(self, number: int) -> None:
        assert self._process is not None
        os.kill(self._process.pid, number)

    def _serves(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"ended:\n{self._last_output()}"
        return self._makes_bucket()

    def _last_output(self) -> str:
        return self._output.read_text()[-2000:]

    def _makes_bucket(self) -> bool:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=5)
        if self.certificate:
            trusted = ssl.create_default_context(cafile=self.certificate)
            connection = HTTPSConnection("127.0.0.1", self.port, timeout=5, context=trusted)
        try:
            connection.request("PUT", f"/{BUCKET}", headers={"Host": "s3.us-east-1.amazonaws.com"})
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()


@contextmanager
def running_server(folder: Path, *, has_access_control: bool = False, has_tls: bool = False) -> Iterator[S3Server]:
    """A server for the time of the block, and the credentials in the environment."""
    require_s3()
    server = S3Server(folder, has_access_control=has_access_control, has_tls=has_tls)
    with pytest.MonkeyPatch.context() as environment:
        for name, value in ENVIRONMENT.items():
            environment.setenv(name, value)
        try:
            server.start()
            yield server
        finally:
            server.stop()


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A server that the tests of a module share; none of them stops it."""
    with running_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="session")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A server that all tests of a run share, whose clock shows milliseconds; none of them stops it.

    A bucket tells the time in whole seconds, so that what is written may seem to be of a second ago. A test that lets
    the time pass would find it on the wrong side.
    """
    with running_server(tmp_path_factory.mktemp("bucket")) as server, pytest.MonkeyPatch.context() as clock:
        clock.setattr("oncelog.znodes.replicated.s3.S3Bucket.now_ms", lambda self: wall_ms())
        yield server


def require_s3() -> None:
    for package in ("moto", "flask", "flask_cors"):
        if importlib.util.find_spec(package) is None:
            missing_part("the S3 server", f"install the test dependencies: {package} is missing")


def make_certificate(file: Path) -> None:
    """A key and a certificate of 127.0.0.1 that it signs itself, both in one file."""
    options = ["-subj", "/CN=tests", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        *options,
        "-keyout",
        str(file),
        "-out",
        str(file),
    ]
    subprocess.run(command, check=True, capture_output=True)


class Cutter:
    """Stands before a server and cuts connections.

    Attributes:
        port: where it listens.
        answer_bytes: what passes of the answers on one connection; None for all.
        request_bytes: what passes of all requests together from now on; None for all.
        cuts_left: after so many cuts everything passes again.
    """

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self.port: int = self._listening.getsockname()[1]
        self.answer_bytes: int | None = None
        self.request_bytes: int | None = None
        self.cuts_left = 1_000_000
        self._threads[0].start()

    def close(self) -> None:
        for end in [self._listening, *self._sockets]:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection(("127.0.0.1", self._server_port))
                self._sockets += [client, server]
                for run in (self._pass_requests, self._pass_answers):
                    thread = threading.Thread(target=run, args=(client, server))
                    self._threads.append(thread)
                    thread.start()

    def _pass_requests(self, client: socket.socket, server: socket.socket) -> None:
        with _both_ends(client, server):
            while data := client.recv(65536):
                if self.request_bytes is not None and self.cuts_left > 0:
                    self.request_bytes -= len(data)
                    if self.request_bytes < 0:
                        self.cuts_left -= 1
                        return
                server.sendall(data)

    def _pass_answers(self, client: socket.socket, server: socket.socket) -> None:
        passed = 0
        with _both_ends(client, server):
            while data := server.recv(65536):
                passed += len(data)
                if self.answer_bytes is not None and self.cuts_left > 0 and passed > self.answer_bytes:
                    client.sendall(data[: max(len(data) - (passed - self.answer_bytes), 0)])
                    self.cuts_left -= 1
                    return
                client.sendall(data)


@contextmanager
def _both_ends(*ends: socket.socket) -> Iterator[None]:
    """When one direction ends, so does the connection."""
    with suppress(OSError):
        yield
    for end in ends:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@contextmanager
def cutter(server: S3Server) -> Iterator[Cutter]:
    found = Cutter(server.port)
    try:
        yield found
    finally:
        found.close()


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port
