"""The PostgreSQL servers of tests, from the machine's own binaries.

The fixture `postgres` is one server for all tests of a run; each test takes a schema of its own. Tests that stop, pause
or kill servers start their own by `running_server`.
"""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import Any

import psycopg
import pytest

from oncelog.testing.server_process import ServerProcess, free_ports
from tests.support.harness.parts import missing_part
from tests.support.harness.waiting import until

MEMORY = Path("/dev/shm")
ROLE = "oncelog"
PASSWORD, WRONG_PASSWORD = "correct-horse-battery", "hunter2-hunter2"

_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "shared_buffers": "16MB",
    "max_wal_size": "64MB",
    "max_connections": "60",
    "max_prepared_transactions": "20",
    "autovacuum": "off",  # it would be at work behind the tests, also while a server is stopped
}


class PostgresServer(ServerProcess):
    """One server that listens on 127.0.0.1 and has a database. Each role may log in without a password but `locked`.

    Args:
        folder: for its data; it belongs to the user that runs the server.
        settings: further ones of postgresql.conf.
    """

    def __init__(self, folder: Path, settings: Sequence[str] = ()) -> None:
        super().__init__(folder)
        self.port = free_ports(1)[0]
        self._settings = [*(f"{name}={value}" for name, value in _SETTINGS.items()), *settings]
        self._numbers = itertools.count()

    def url(self, options: str = "", *, port: int | None = None, user: str = ROLE, database: str = "postgres") -> str:
        """A store that no other test has, on another port if one is given."""
        schema = "" if "schema=" in options else f"schema=test_{next(self._numbers)}&"
        return f"postgresql://{user}@127.0.0.1:{port or self.port}/{database}?{schema}{options}".rstrip("&?")

    def initialise(self) -> None:
        """Make the data folder of a new server."""
        options = ["--auth=trust", f"--username={ROLE}", "--encoding=UTF8", "--locale=C", "--wal-segsize=1"]
        self._run("initdb", "--no-sync", *options)
        access = self.folder / "pg_hba.conf"
        access.write_text(f"host all locked 127.0.0.1/32 scram-sha-256\n{access.read_text()}")

    def require_tls(self, certificates: Path) -> None:
        """Have it take no other connections; the role `certified` logs in with the client's certificate."""
        for name in ("server.key", "server.crt", "ca.pem"):
            shutil.copy(certificates / name, self.folder)
            _give(self.folder / name)
        access = self.folder / "pg_hba.conf"
        certified = "hostssl all certified 127.0.0.1/32 cert map=clients"
        access.write_text(f"hostnossl all all all reject\n{certified}\n{access.read_text()}")
        (self.folder / "pg_ident.conf").write_text("clients client certified\n")
        self._settings += ["ssl=on", "ssl_ca_file=ca.pem"]

    def copy_of(self, primary: PostgresServer, name: str) -> None:
        """Become a replica of a server that runs, which knows it by a name."""
        source = f"host=127.0.0.1 port={primary.port} user={ROLE} application_name={name}"
        self._run("pg_basebackup", "--dbname", source, "--write-recovery-conf", "--checkpoint=fast", "--no-sync")

    def promote(self) -> None:
        self._run("pg_ctl", "promote")

    def start(self) -> None:
        command = [_program("postgres"), "-D", str(self.folder), "-p", str(self.port)]
        self._launch([*command, *(part for setting in self._settings for part in ("-c", setting))], **_AS_USER)
        self.wait_until_serving()

    def is_serving(self) -> bool:
        with suppress(psycopg.OperationalError):
            self.ask("SELECT 1")
            return True
        return False

    def ask(self, sql: str) -> list[tuple[object, ...]]:
        """Run a statement as the server's owner."""
        with psycopg.connect(f"host=127.0.0.1 port={self.port} user={ROLE} dbname=postgres", autocommit=True) as asking:
            cursor = asking.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    def stop(self, how: int = signal.SIGINT) -> None:
        """End it, and wait until it is gone: by an interrupt in order, by SIGQUIT as a crash."""
        if self._process is not None:
            self.resume()  # a paused one would not hear of it
            self._process.send_signal(how)
            self._process.wait()
            self._process = None

    def kill(self) -> None:
        """Kill every process of the server without any warning."""
        children = self.processes()
        self._running().kill()
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        self._running().wait()
        until(lambda: not any(Path("/proc", str(child)).exists() for child in children))
        self._process = None

    def pause(self) -> None:
        for process in self.processes():
            os.kill(process, signal.SIGSTOP)
        self._running().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._running().send_signal(signal.SIGCONT)
        for process in self.processes():
            with suppress(ProcessLookupError):  # its client has gone: it ends as soon as it runs again
                os.kill(process, signal.SIGCONT)

    def processes(self) -> list[int]:
        """Those that serve clients, and the server's helpers."""
        tasks = Path("/proc", str(self.pid), "task")
        return [int(child) for task in tasks.iterdir() for child in (task / "children").read_text().split()]

    def _run(self, program: str, *arguments: str) -> None:
        command = [_program(program), "-D", str(self.folder), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, **_AS_USER)
        assert done.returncode == 0, done.stderr


@contextmanager
def new_server(*settings: str) -> Iterator[PostgresServer]:
    """A server with an empty folder, which is stopped and removed behind the block."""
    require_postgres()
    # Not below pytest's folder, which is closed to the server's user; where memory may be a disk, syncs take no time.
    folder = Path(tempfile.mkdtemp(prefix="oncelog-postgres-", dir=MEMORY if MEMORY.is_dir() else None))
    _give(folder)
    server = PostgresServer(folder, settings)
    try:
        yield server
    finally:
        server.stop(signal.SIGQUIT)
        shutil.rmtree(folder)


@contextmanager
def running_server(*settings: str) -> Iterator[PostgresServer]:
    """A server of one's own, for the time of the block."""
    with new_server(*settings) as server:
        server.initialise()
        server.start()
        yield server


@contextmanager
def running_tls_server(certificates: Path) -> Iterator[PostgresServer]:
    """One that refuses connections without TLS. It knows `locked` by PASSWORD, and `certified` by a certificate."""
    with new_server() as server:
        server.initialise()
        server.require_tls(certificates)
        server.start()
        server.ask(f"CREATE ROLE locked LOGIN PASSWORD '{PASSWORD}'; CREATE ROLE certified LOGIN")
        server.ask("GRANT CREATE ON DATABASE postgres TO locked, certified")
        yield server


@pytest.fixture(scope="module")
def tls_postgres(certificates: Path) -> Iterator[PostgresServer]:
    """The same, for the tests of a module."""
    with running_tls_server(certificates) as server:
        yield server


UNUSUAL = {
    "standard_conforming_strings": "off",
    "escape_string_warning": "off",
    "backslash_quote": "off",
    "bytea_output": "escape",
    "array_nulls": "off",
    "search_path": "nowhere",
    "DateStyle": "German, DMY",
    "IntervalStyle": "sql_standard",
    "TimeZone": "Asia/Kathmandu",
    "extra_float_digits": "-15",
    "client_encoding": "LATIN1",
    "statement_timeout": "400ms",
    "lock_timeout": "200ms",
    "idle_in_transaction_session_timeout": "200ms",
    "default_transaction_isolation": "serializable",
    "default_transaction_read_only": "on",
    "row_security": "off",
    "synchronous_commit": "off",
}
"""Settings that an administrator may give to a role or a database, and that change nothing of what is written."""


class Where(StrEnum):
    """What has the unusual settings, and how clients get there."""

    ROLE = "role"
    DATABASE = "database"
    POOLER = "role behind a pooler"


@contextmanager
def unusual_server(where: Where) -> Iterator[tuple[PostgresServer, Callable[[str], str]]]:
    """A server on which clients get the settings `UNUSUAL`, but for its owner; and what makes URLs of such clients."""
    with running_server() as server, ExitStack() as stack:
        server.ask("CREATE ROLE unusual LOGIN SUPERUSER")
        for setting, value in UNUSUAL.items():
            if where is Where.DATABASE:
                server.ask(f"ALTER ROLE {ROLE} SET {setting} TO DEFAULT; ALTER ROLE {ROLE} SET {setting} FROM CURRENT")
            target = "DATABASE postgres" if where is Where.DATABASE else "ROLE unusual"
            server.ask(f"ALTER {target} SET {setting} = {value if ',' in value else repr(value)}")
        port = stack.enter_context(pooler(server, role="unusual")) if where is Where.POOLER else server.port
        yield server, lambda options: server.url(options, port=port, user="unusual")


@pytest.fixture
def password(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Sets the password that clients find, those in other processes too."""
    return lambda found: monkeypatch.setenv("PGPASSWORD", found)


def trusting(certificates: Path, more: str = "", *, authority: str = "ca") -> str:
    """The options of a client that takes only servers for which this authority vouches."""
    return f"sslmode=verify-full&sslrootcert={certificates / authority}.pem{more}"


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A server that all tests of a run share; none of them stops it."""
    with running_server() as server:
        yield server


def require_postgres() -> None:
    if _folder_of_programs() is None:
        missing_part("PostgreSQL", "install its server (on Debian the package postgresql)")
    if os.geteuid() == 0 and _USER is None:
        missing_part("PostgreSQL", "its server refuses to run as root, and there is no user postgres or nobody")


def _folder_of_programs() -> Path | None:
    """Where the server's programs are: the newest ones of Debian's packages, or what the PATH has."""
    packaged = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    found = str(packaged[-1]) if packaged else shutil.which("initdb")
    return Path(found).parent if found else None


def _program(name: str) -> str:
    folder = _folder_of_programs()
    assert folder is not None
    return str(folder / name)


def _user() -> pwd.struct_passwd | None:
    """Who runs the server in place of root; None if this process is not root's."""
    for name in ("postgres", "nobody") if os.geteuid() == 0 else ():
        with suppress(KeyError):
            return pwd.getpwnam(name)
    return None


def _give(file: Path) -> None:
    """To the user that runs the server, who alone may read it: else it takes no key."""
    file.chmod(0o700)
    if _USER is not None:
        os.chown(file, _USER.pw_uid, _USER.pw_gid)


_USER = _user()
_AS_USER: Any = {} if _USER is None else {"user": _USER.pw_uid, "group": _USER.pw_gid, "extra_groups": [], "cwd": "/"}


@contextmanager
def pooler(server: PostgresServer, *, passwords: Mapping[str, str] | None = None, role: str = ROLE) -> Iterator[int]:
    """PgBouncer in front of a server, with two connections that it lends for a transaction each; yields its port.

    Args:
        server: the one behind it.
        passwords: those of the roles that may log in, by SCRAM; without them everybody is `role`.
        role: that all clients become.
    """
    program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        missing_part("PgBouncer", "install it (on Debian the package pgbouncer)")
    port = free_ports(1)[0]
    settings = {
        "listen_addr": "127.0.0.1",
        "listen_port": port,
        "unix_socket_dir": "",
        "auth_type": "any",
        "pool_mode": "transaction",
        "default_pool_size": 2,
    }
    user = f" user={role}"
    with tempfile.TemporaryDirectory(prefix="oncelog-pgbouncer-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        if passwords is not None:
            lines = "".join(f'"{role}" "{password}"\n' for role, password in passwords.items())
            (folder / "users").write_text(lines)
            settings |= {"auth_type": "scram-sha-256", "auth_file": str(folder / "users")}
            settings["server_tls_sslmode"] = "prefer"
            user = ""
        configuration = folder / "pgbouncer.ini"
        configuration.write_text(
            f"[databases]\npostgres = host=127.0.0.1 port={server.port}{user}\n[pgbouncer]\n"
            + "".join(f"{name} = {value}\n" for name, value in settings.items())
        )
        process = subprocess.Popen(
            [program, str(configuration)], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **_AS_USER
        )
        try:
            until(lambda: _accepts(port))
            yield port
        finally:
            process.kill()
            process.wait()


def _accepts(port: int) -> bool:
    with suppress(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
        return True
    return False
