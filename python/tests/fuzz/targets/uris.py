"""Where a log is: the path and the znodes of `oncelog.open`, URLs of buckets, of ZooKeepers and of PostgreSQLs."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random

import oncelog
from oncelog import metadata
from oncelog.arguments import check_choice
from oncelog.buckets import ObjectPlace
from oncelog.errors import OncelogError, UsageError
from oncelog.log.files import absolute, is_object_store
from oncelog.types import IsolationLevel
from oncelog.znodes.postgres.address import PostgresAddress
from oncelog.znodes.rules import split_path
from oncelog.znodes.zookeeper.address import CHROOT_MAX_LENGTH, ZookeeperAddress
from tests.fuzz.mutators import mutated_text
from tests.fuzz.target import Target, Verdict, expect, expect_typed

BUCKETS = [
    "s3://bucket/folder/a%20b",
    "s3://b?endpoint=https://host:9000&region=eu-central-1&timeout_ms=5000&tls_ca=/ca.pem",
]
ZOOKEEPERS = [
    "zk://h1:2181,h2:2181,[::1]:99/oncelog",
    "zk://h/a/b?timeout_ms=5000&session_ms=900&auth=digest&credentials_env=SECRET",
    "zk://h/a?tls=true&tls_ca=/ca.pem&tls_cert=/c.pem&tls_key=/k.pem&auth=x509&tls_verify_hostname=false",
    "zk://h/a?auth=sasl&credentials_file=/secret",
]


POSTGRESES = [
    "postgresql://user@h1:5432,h2:5433,[::1]:99/database?schema=a_log&timeout_ms=5000",
    "postgres://h/a%20b?sslmode=verify-full&sslrootcert=/ca.pem&sslcert=/c.pem&sslkey=/k.pem&passfile=/secret",
    "postgresql://u%40x@h/a?channel_binding=require&application_name=a b&sslrootcert=system",
]


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


class Paths(Target):
    """`oncelog.open(path, znodes, create=False)`: the log that is there, or a clear error; nothing is ever created.

    Oracle: there is one log, and a path that is opened leads to it: it has that log's id. URLs of other machines are
    targets of their own.
    """

    name = "path"
    weight = 0.1

    def prepare(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="oncelog-fuzz-"))
        with oncelog.open(self._folder / "log") as log:
            self._cluster_id = log.cluster_id
        self._there = set(self._folder.rglob("*"))

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def valid(self) -> Iterable[bytes]:
        return [b"{}/log\n\n", b"file:///{}/log\n\nsqlite", b"file:{}/log\n\nsqlite:{}/log/znodes.sqlite"]

    def make(self, chance: Random) -> bytes:
        root = "{}"  # stands for a folder that has another name in every process
        paths = [f"{root}/log", f"file://{root}/log", f"file:{root}/log", f"file://localhost{root}/log", "relative/log"]
        stores = ["", "", "sqlite", f"sqlite:{root}/log/znodes.sqlite", f"sqlite:{root}/log", "memory", "file:x"]
        path, znodes = chance.choice(paths), chance.choice(stores)
        if chance.random() < 0.7:
            path = mutated_text(chance, path, [*paths, *BUCKETS])
        else:
            znodes = mutated_text(chance, znodes, stores)
        return f"{path}\n\n{znodes}".encode("utf-8", "surrogatepass")

    def check(self, data: bytes) -> Verdict:
        path, _, znodes = _decoded(data).replace("{}", str(self._folder)).partition("\n\n")
        if znodes.startswith("zk:") or is_object_store(path):
            return Verdict.REFUSED
        try:
            with oncelog.open(path, znodes or None, create=False) as log:
                expect(log.cluster_id == self._cluster_id, "another log was opened", path=path)
                expect(Path(log.path).is_absolute(), "a log has a path that other processes find elsewhere")
        except OncelogError:
            self._expect_untouched()
            return Verdict.REFUSED
        self._expect_untouched()
        return Verdict.CORRECT

    def _expect_untouched(self) -> None:
        left = {path for path in self._folder.rglob("*") if not path.name.endswith(("-wal", "-shm"))}
        expect(left == self._there, "a failed open created something", left=left - self._there)


class Bucket(Target):
    """URLs of buckets: the same place again from the URL that is kept, or a `UsageError` without any secret."""

    name = "bucket-url"

    def prepare(self) -> None:
        pass

    def valid(self) -> Iterable[bytes]:
        return map(str.encode, BUCKETS)

    def make(self, chance: Random) -> bytes:
        return mutated_text(chance, chance.choice(BUCKETS), BUCKETS).encode("utf-8", "surrogatepass")

    def check(self, data: bytes) -> Verdict:
        text = _decoded(data)
        try:
            place = ObjectPlace.parse(text)
        except UsageError:
            return Verdict.REFUSED
        expect_typed(place)
        expect(is_object_store(absolute(text)), "a bucket became a folder")
        expect(ObjectPlace.parse(place.url) == place, "the URL of a place is another place")
        expect(
            all(part not in ("", ".", "..") for part in place.folder.split("/")), "a folder that is none", place=place
        )
        expect(1000 <= place.timeout_ms < 10**12, "a timeout out of bounds", place=place)
        return Verdict.CORRECT


class Zookeeper(Target):
    """URLs of ZooKeepers: servers with ports, a chroot that the servers take, options of their types; or a clear error.

    Oracle: the rules of paths, and the URL that is kept reads alike.
    """

    name = "zookeeper-url"

    def prepare(self) -> None:
        pass

    def valid(self) -> Iterable[bytes]:
        return map(str.encode, ZOOKEEPERS)

    def make(self, chance: Random) -> bytes:
        return mutated_text(chance, chance.choice(ZOOKEEPERS), ZOOKEEPERS).encode("utf-8", "surrogatepass")

    def check(self, data: bytes) -> Verdict:
        text = _decoded(data)
        try:
            address = ZookeeperAddress.parse(text)
        except UsageError:
            return Verdict.REFUSED
        expect_typed(address)
        split_path(address.chroot)
        expect(0 < len(address.chroot.encode()) <= CHROOT_MAX_LENGTH and address.chroot != "/", "a chroot that is none")
        for server in address.servers.split(","):
            host, _, port = server.rpartition(":")
            expect(bool(host) and 0 < int(port) < 65536, "a server without host or port", server=server)
        expect(0 < address.timeout_ms < 10**12 and 0 < address.session_ms < 10**12, "a time out of bounds")
        expect(ZookeeperAddress.parse(address.url) == address, "the URL of an address is another one")
        return Verdict.CORRECT


class Postgres(Target):
    """URLs of PostgreSQLs: servers with ports, a database, a schema that needs no quotes, options; or a clear error.

    Oracle: the URL that is kept reads alike.
    """

    name = "postgres-url"

    def prepare(self) -> None:
        pass

    def valid(self) -> Iterable[bytes]:
        return map(str.encode, POSTGRESES)

    def make(self, chance: Random) -> bytes:
        return mutated_text(chance, chance.choice(POSTGRESES), POSTGRESES).encode("utf-8", "surrogatepass")

    def check(self, data: bytes) -> Verdict:
        text = _decoded(data)
        try:
            address = PostgresAddress.parse(text)
        except UsageError:
            return Verdict.REFUSED
        expect_typed(address)
        expect(address.schema.isascii() and address.schema.isidentifier(), "a schema that is none")
        expect(bool(address.database) and bool(address.servers), "no database, or no server")
        for host, port in address.servers:
            expect(bool(host) and 0 < port < 65536, "a server without host or port", host=host, port=port)
        expect(0 < address.timeout_ms < 10**12, "a time out of bounds")
        expect(PostgresAddress.parse(address.url) == address, "the URL of an address is another one")
        return Verdict.CORRECT


class Names(Target):
    """What else a caller names: isolation levels, and places of metadata that are not there.

    Oracle: the two levels by their names; and `open_metadata` with ``create=False`` finds nothing anywhere.
    """

    name = "name"
    weight = 0.1

    def prepare(self) -> None:
        self.names = [*IsolationLevel, "/nowhere/metadata", "sqlite:/nowhere/a.sqlite", "relative"]

    def valid(self) -> Iterable[bytes]:
        return [b"memory"]

    def make(self, chance: Random) -> bytes:
        return mutated_text(chance, chance.choice(self.names), self.names).encode("utf-8", "surrogatepass")

    def check(self, data: bytes) -> Verdict:
        text = _decoded(data)
        try:
            level = check_choice("isolation_level", IsolationLevel, text)
            expect(text == level.value, "another text than a level's name", text=text)
        except UsageError:
            pass
        if text.startswith(("zk:", "s3:", "postgres", "memory")):
            return Verdict.CORRECT
        try:
            metadata.open_metadata(text, create=False).close()
        except OncelogError:
            return Verdict.REFUSED
        expect(False, "metadata was found where there is none", place=text)
        return Verdict.CORRECT


TARGETS: dict[str, Callable[[], Target]] = {kind.name: kind for kind in (Paths, Bucket, Zookeeper, Postgres, Names)}
