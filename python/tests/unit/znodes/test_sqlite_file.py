"""The SQLite file: who may open it, what is no store, and what happens when it or its disk fails."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from oncelog.errors import (
    CorruptDataError,
    InvalidOptionError,
    OncelogError,
    OutcomeUnknownError,
    StoreAccessError,
    StoreHostError,
    StoreUnavailableError,
    UnsupportedFormatError,
)
from oncelog.limits import WAL_KEEP_BYTES
from oncelog.ports import Create, Set, ZnodeView
from oncelog.znodes import host
from oncelog.znodes.sqlite import SqliteZnodeStore
from tests.unit.znodes.worlds import SqliteWorld, dump, forked, increment, wait_for


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Of a store with one znode, closed."""
    path = tmp_path / "znodes.sqlite"
    with closing(SqliteZnodeStore(path)) as store:
        store.multi([Create("/a", b"data")])
    return path


def refusal(path: Path, kind: type[OncelogError], *, create: bool = True) -> OncelogError:
    """The error on opening, after which nothing in the folder has changed."""
    before = {file.name: file.read_bytes() for file in path.parent.iterdir() if file.is_file()}
    with pytest.raises(kind) as caught:
        SqliteZnodeStore(path, create=create)
    assert {file.name: file.read_bytes() for file in path.parent.iterdir() if file.is_file()} == before
    assert type(caught.value) is kind
    return caught.value


def sql(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)


# Opening


def test_a_store_outlives_its_clients(path: Path) -> None:
    with closing(SqliteZnodeStore(path, create=False)) as store:
        assert {path: znode.data for path, znode in dump(store).items()} == {"/": b"", "/a": b"data"}


def test_a_closed_store_is_one_file(path: Path) -> None:
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_missing_folders_are_created_and_a_missing_store_only_on_request(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "znodes.sqlite"
    with pytest.raises(InvalidOptionError):
        SqliteZnodeStore(path, create=False)
    assert list(tmp_path.iterdir()) == []

    SqliteZnodeStore(path).close()
    SqliteZnodeStore(path, create=False).close()


def test_a_new_store_and_the_folders_made_for_it_outlive_a_power_failure(tmp_path: Path, synced: list[Path]) -> None:
    SqliteZnodeStore(tmp_path / "deep" / "er" / "znodes.sqlite").close()

    assert synced == [tmp_path, tmp_path / "deep", tmp_path / "deep" / "er"]


@pytest.mark.parametrize("name", ["a b", "50%", "what?", "#1", "é", "-wal"])
def test_any_file_name_will_do(tmp_path: Path, name: str) -> None:
    with closing(SqliteZnodeStore(tmp_path / name)) as store:
        store.multi([Create("/a")])
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_many_processes_that_open_a_new_store_at_once_share_one(tmp_path: Path) -> None:
    path = tmp_path / "znodes.sqlite"

    def count(view: ZnodeView) -> None:
        if view.get("/counter") is None:
            view.create("/counter", b"0")
        increment(view)

    def work() -> None:
        with closing(SqliteZnodeStore(path)) as store:
            store.transact(count)

    wait_for([forked(work) for _ in range(8)])
    with closing(SqliteZnodeStore(path)) as store:
        znode = store.get("/counter")
    assert znode is not None
    assert znode.data == b"8"


def test_a_creator_that_died_half_way_leaves_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "znodes.sqlite"
    for leftover in ("-new", "-new-wal", "-new-shm", "-new-journal"):
        path.with_name(path.name + leftover).write_bytes(b"torn")

    with closing(SqliteZnodeStore(path)) as store:
        store.multi([Create("/a")])
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_every_connection_syncs_every_commit(path: Path) -> None:
    full = 2
    with closing(SqliteZnodeStore(path)) as store, store._pool.lent() as first, store._pool.lent() as second:
        for connection in (first, second):
            assert connection.rows("PRAGMA synchronous") == [(full,)]
            assert connection.rows("PRAGMA journal_mode") == [("wal",)]


# What is no store, or no longer


def test_other_files_are_refused_and_kept(path: Path) -> None:
    path.write_bytes(b"no database at all\n" * 100)
    assert "-wal" in str(refusal(path, CorruptDataError))

    path.write_bytes(b"")
    assert "empty" in str(refusal(path, CorruptDataError))


def test_another_sqlite_database_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    sql(path, "CREATE TABLE own (a)")

    assert "not a znode store" in str(refusal(path, CorruptDataError))


def test_a_newer_layout_is_refused(path: Path) -> None:
    sql(path, "PRAGMA user_version = 2")

    assert refusal(path, UnsupportedFormatError).fields["layout"] == 2


def test_a_missing_table_is_damage(path: Path) -> None:
    sql(path, "DROP TABLE meta")

    assert "no such table" in refusal(path, CorruptDataError).fields["reason"]


@pytest.mark.parametrize("damage", ["garbage", "truncation"])
def test_a_damaged_file_is_an_error_that_names_it_and_the_fix(path: Path, damage: str) -> None:
    with closing(SqliteZnodeStore(path)) as store:
        store.multi([Create(f"/{number:04}", b"x" * 500) for number in range(500)])
    content = path.read_bytes()
    path.write_bytes(content[:20_000] + b"\xff" * (len(content) - 20_000) if damage == "garbage" else content[:20_000])

    with pytest.raises(CorruptDataError) as caught, closing(SqliteZnodeStore(path)) as store:
        store.children_data("/")
    assert caught.value.fields["path"] == str(path)
    assert ".recover" in caught.value.message


def test_a_log_without_its_file_is_refused_since_a_new_file_would_swallow_it(path: Path) -> None:
    path.with_name(path.name + "-wal").write_bytes(b"committed but not yet moved into the file")
    path.unlink()

    assert "write-ahead log" in str(refusal(path, CorruptDataError))


def test_a_file_that_is_taken_away_while_open_gets_no_more_writes(sqlite: SqliteWorld) -> None:
    store = sqlite.client()
    store.multi([Create("/a")])
    elsewhere = sqlite.path.rename(sqlite.path.with_name("elsewhere"))

    with pytest.raises(StoreAccessError, match="moved or removed"):
        store.multi([Create("/b")])
    with pytest.raises(StoreAccessError), store.snapshot():
        pass
    elsewhere.rename(sqlite.path)
    assert store.children("/") == ["a"]


def test_a_store_whose_file_was_replaced_neither_shows_the_old_one_nor_takes_the_new_one_for_it(
    sqlite: SqliteWorld,
) -> None:
    store = sqlite.client()
    store.multi([Create("/a")])
    for left in sqlite.path.parent.glob(f"{sqlite.path.name}*"):
        left.rename(sqlite.path.parent / f"old-{left.name}")
    other = sqlite.client()
    other.multi([Create("/other")])

    for _ in range(2):
        with pytest.raises(StoreAccessError, match="open the log again"), store.snapshot():
            pass
        with pytest.raises(StoreAccessError, match="open the log again"):
            store.multi([Create("/b")])
    with pytest.raises(StoreAccessError, match="open the log again"):
        store.children("/")
    assert other.children("/") == ["other"]


# Access


def as_ordinary_user(work: Callable[[], None]) -> None:
    """Run `work` in a child that permissions apply to, also when the tests run as root."""

    def child() -> None:
        if os.geteuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        work()

    wait_for([forked(child)])


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder whose parents every user may enter."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        yield Path(name)


@pytest.mark.parametrize("read_only", ["file", "folder"])
def test_a_read_only_store_is_refused_with_the_place_that_is_read_only(open_folder: Path, read_only: str) -> None:
    path = open_folder / "znodes.sqlite"
    SqliteZnodeStore(path).close()
    path.chmod(0o444 if read_only == "file" else 0o666)
    open_folder.chmod(0o777 if read_only == "file" else 0o555)

    def work() -> None:
        error = refusal(path, StoreAccessError)
        assert error.fields["path"] == str(path if read_only == "file" else open_folder)

    as_ordinary_user(work)


def test_a_store_cannot_be_created_in_a_read_only_folder(open_folder: Path) -> None:
    open_folder.chmod(0o555)

    def work() -> None:
        refusal(open_folder / "znodes.sqlite", StoreAccessError)
        with pytest.raises(StoreAccessError):
            SqliteZnodeStore(open_folder / "new" / "znodes.sqlite")

    as_ordinary_user(work)


# Disk


def limit_pages(store: SqliteZnodeStore, pages: int) -> None:
    """Let SQLite find its disk full at this many pages."""
    with store._pool.lent() as connection:
        connection.rows(f"PRAGMA max_page_count = {pages}")


def test_a_full_disk_is_a_retriable_error_and_nothing_is_written(path: Path) -> None:
    with closing(SqliteZnodeStore(path)) as store:
        limit_pages(store, 20)
        before = dump(store)
        with pytest.raises(StoreUnavailableError, match="full") as caught:
            store.multi([Set("/a", b"new"), *(Create(f"/{number}", b"x" * 4000) for number in range(50))])
        assert caught.value.fields["file_system"] == str(host.mount_of(path))
        assert dump(store) == before

        store.multi([Set("/a", b"new")])  # another connection, without the limit
        store.multi([Create(f"/{number}", b"x" * 4000) for number in range(50)])


def test_a_disk_that_fails_during_a_commit_leaves_the_outcome_unknown_and_the_step_can_run_again(path: Path) -> None:
    def work() -> None:
        with closing(SqliteZnodeStore(path)) as store:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            store.get("/a")
            resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, resource.RLIM_INFINITY))
            with pytest.raises(OutcomeUnknownError):
                store.multi([Create("/big", b"x" * 100_000)])
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            store.multi([Create("/big", b"x" * 100_000)])

    wait_for([forked(work)])
    with closing(SqliteZnodeStore(path)) as store:
        assert store.children("/") == ["a", "big"]


def test_the_write_ahead_log_stays_bounded_and_shrinks_after_a_long_snapshot(sqlite: SqliteWorld) -> None:
    store = sqlite.client()
    store.multi([Create("/a", b"")])
    log = sqlite.path.with_name(sqlite.path.name + "-wal")

    def write(count: int) -> None:
        for number in range(count):
            store.multi([Set("/a", bytes([number]) * 400_000)])  # SQLite writes only what differs

    write(60)
    without_readers = log.stat().st_size
    assert without_readers < WAL_KEEP_BYTES
    with store.snapshot() as reader:
        reader.get("/a")
        write(60)
        assert log.stat().st_size > 60 * 400_000
    write(40)
    assert log.stat().st_size <= WAL_KEEP_BYTES


# Hosts


@pytest.fixture
def machine(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str, str, str], None]:
    """Set what this machine says of itself: machine id, boot id and host name."""
    folder = tmp_path_factory.mktemp("machine")
    monkeypatch.setattr(host, "MACHINE_ID", folder / "machine-id")
    monkeypatch.setattr(host, "BOOT_ID", folder / "boot_id")
    monkeypatch.delenv(host.HOST_ID_VARIABLE, raising=False)

    def become(machine_id: str, boot_id: str, hostname: str) -> None:
        (folder / "machine-id").write_text(machine_id)
        (folder / "boot_id").write_text(boot_id)
        monkeypatch.setattr("platform.node", lambda: hostname)

    return become


Machine = Callable[[str, str, str], None]
ONE, TWO = "1" * 32, "2" * 32


def opens(path: Path) -> bool:
    try:
        SqliteZnodeStore(path).close()
    except StoreHostError:
        return False
    return True


def test_another_host_is_refused_with_the_ways_out(tmp_path: Path, machine: Machine) -> None:
    path = tmp_path / "znodes.sqlite"
    machine(ONE, "boot-1", "first")
    assert opens(path)
    machine(TWO, "boot-2", "second")

    error = refusal(path, StoreHostError)
    assert "first" in error.fields["store_host"]
    assert "second" in error.fields["this_host"]
    for way_out in ("znodes=zk://", "oncelog meta adopt-host", "ONCELOG_HOST_ID"):
        assert way_out in error.message


def test_a_host_keeps_its_store_over_reboots_and_renames(tmp_path: Path, machine: Machine) -> None:
    path = tmp_path / "znodes.sqlite"
    for boot, name in [("boot-1", "old-name"), ("boot-2", "old-name"), ("boot-3", "new-name")]:
        machine(ONE, boot, name)
        assert opens(path)


def test_containers_of_one_kernel_share_a_store_whatever_they_are_called(tmp_path: Path, machine: Machine) -> None:
    path = tmp_path / "znodes.sqlite"
    for machine_id, name in [("", "3f2a"), ("", "77c1"), (ONE, "77c1"), ("uninitialized", "b00b")]:
        machine(machine_id, "boot-1", name)
        assert opens(path)


def test_a_container_without_a_machine_id_keeps_its_store_by_its_name(tmp_path: Path, machine: Machine) -> None:
    path = tmp_path / "znodes.sqlite"
    machine("", "boot-1", "worker-0")
    assert opens(path)
    machine("", "boot-2", "worker-0")
    assert opens(path)
    machine("", "boot-3", "worker-1")
    assert not opens(path)


def test_a_boot_is_remembered_for_those_with_other_names(tmp_path: Path, machine: Machine) -> None:
    path = tmp_path / "znodes.sqlite"
    for boot, name in [("boot-1", "worker-0"), ("boot-2", "worker-0"), ("boot-2", "worker-9")]:
        machine("", boot, name)
        assert opens(path)


def test_a_chosen_host_id_goes_before_what_the_machine_says(
    tmp_path: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "znodes.sqlite"
    machine(ONE, "boot-1", "first")
    SqliteZnodeStore(path, host_id="pod-0").close()
    machine(TWO, "boot-2", "second")
    assert not opens(path)
    monkeypatch.setenv(host.HOST_ID_VARIABLE, "pod-0")
    assert opens(path)


def test_an_adopted_store_belongs_to_the_new_host_alone(tmp_path: Path, machine: Machine) -> None:
    path = tmp_path / "znodes.sqlite"
    machine(ONE, "boot-1", "first")
    assert opens(path)
    machine(TWO, "boot-2", "second")
    SqliteZnodeStore.adopt_host(path)
    assert opens(path)
    machine(ONE, "boot-1", "first")
    assert not opens(path)


def test_adopting_what_is_no_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidOptionError):
        SqliteZnodeStore.adopt_host(tmp_path / "none")
    (tmp_path / "other").write_bytes(b"other" * 1000)
    with pytest.raises(CorruptDataError):
        SqliteZnodeStore.adopt_host(tmp_path / "other")


def test_systems_that_tell_nothing_go_by_the_host_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for source in ("MACHINE_ID", "BOOT_ID", "MOUNTS"):
        monkeypatch.setattr(host, source, tmp_path / "none")
    monkeypatch.delenv(host.HOST_ID_VARIABLE, raising=False)
    path = tmp_path / "znodes.sqlite"
    monkeypatch.setattr("platform.node", lambda: "first")
    assert opens(path)
    assert opens(path)
    monkeypatch.setattr("platform.node", lambda: "second")
    assert not opens(path)


# File systems


def mounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    file = tmp_path / "mountinfo"
    file.write_text("".join(f"{line}\n" for line in ("22 1 254:0 / / rw - ext4 /dev/vda rw", *lines)))
    monkeypatch.setattr(host, "MOUNTS", file)


@pytest.mark.parametrize(
    "kind",
    [
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "9p",
        "ceph",
        "lustre",
        "glusterfs",
        "afs",
        "fuse",
        "fuse.sshfs",
        "fuse.s3fs",
        "fuse.new",
    ],
)
def test_a_network_file_system_is_refused_before_anything_is_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    mounts(tmp_path, monkeypatch, f"36 22 0:40 / {tmp_path}/share rw shared:1 master:2 - {kind} server:/x rw")
    path = tmp_path / "share" / "deep" / "znodes.sqlite"

    with pytest.raises(StoreHostError, match="znodes=zk://") as caught:
        SqliteZnodeStore(path)
    assert caught.value.fields["file_system"] == f"{tmp_path}/share ({kind})"
    assert not (tmp_path / "share").exists()


@pytest.mark.parametrize("kind", ["ext4", "xfs", "overlay", "tmpfs", "fuseblk", "fuse.fuse-overlayfs"])
def test_a_local_file_system_is_fine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    mounts(tmp_path, monkeypatch, f"36 22 0:40 / {tmp_path} rw - {kind} /dev/x rw")

    SqliteZnodeStore(tmp_path / "znodes.sqlite").close()


def test_the_mount_of_a_path_is_the_innermost_and_the_latest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts(
        tmp_path,
        monkeypatch,
        f"36 22 0:40 / {tmp_path}/a rw - nfs server:/x rw",
        f"37 36 0:41 / {tmp_path}/a/b rw - ext4 /dev/x rw",
        f"38 22 0:42 / {tmp_path}/with\\040space rw - nfs4 server:/x rw",
        f"39 22 0:43 / {tmp_path}/covered rw - nfs server:/x rw",
        f"40 22 0:44 / {tmp_path}/covered rw - xfs /dev/y rw",
    )
    (tmp_path / "link").symlink_to(tmp_path / "a")

    kinds = {
        name: host.mount_of(tmp_path / name).kind
        for name in ("a/x", "a/b/x", "ab", "with space/x", "covered/x", "link/x")
    }
    assert kinds == {
        "a/x": "nfs",
        "a/b/x": "ext4",
        "ab": "ext4",
        "with space/x": "nfs4",
        "covered/x": "xfs",
        "link/x": "nfs",
    }


def test_the_mounts_of_this_machine_can_be_read() -> None:
    if not host.MOUNTS.exists():
        pytest.skip("no mountinfo on this system")
    assert host.mount_of(Path("/proc/self")).kind == "proc"
