"""The store on PostgreSQL beyond the contract: answers that are lost, servers that end, processes that stand still."""

from __future__ import annotations

import gc
import json
import logging
import os
import pickle
import signal
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

import oncelog
from oncelog import metadata
from oncelog.cli import main
from oncelog.errors import (
    IllegalStateTransitionError,
    InvalidOptionError,
    OutcomeUnknownError,
    StoreAccessError,
    StoreUnavailableError,
    UnsupportedFormatError,
    UsageError,
)
from oncelog.limits import MULTI_MAX_BYTES, MULTI_MAX_OPS
from oncelog.ports import Create, Delete, Set, Timing
from oncelog.testing import invariants
from oncelog.znodes.clock import SYSTEM_CLOCK, uniform_jitter, wall_ms
from oncelog.znodes.errors import StaleStepError
from oncelog.znodes.postgres import PostgresZnodeStore, tables
from tests.support.harness.waiting import until
from tests.support.log.logs import TOPIC, numbered, started, values, write_committed
from tests.support.servers.postgres import PostgresServer, Where, new_server, pooler, running_server, unusual_server
from tests.support.servers.proxy import Loss, PostgresWire, Proxy, proxied
from tests.unit.znodes.worlds import (
    PostgresWorld,
    doing,
    forked,
    increment,
    increment_in_generations,
    increment_while_forking,
    kill,
    number_at,
    stop_inside_a_step,
    wait_for,
)

pytestmark = pytest.mark.slow

PLAIN = "sslmode=disable&gssencmode=disable"
"""What the proxy can read."""

SECRET = "correct-horse-battery"


@pytest.fixture
def world(postgres: PostgresServer, tmp_path: Path) -> Iterator[PostgresWorld]:
    world = PostgresWorld(tmp_path, postgres.url())
    yield world
    world.close()


@pytest.fixture
def store(world: PostgresWorld) -> PostgresZnodeStore:
    store = world.client()
    assert isinstance(store, PostgresZnodeStore)
    store.multi([Create("/counter", b"0")])
    return store


@contextmanager
def store_through(proxy: Proxy, postgres: PostgresServer, options: str = PLAIN) -> Iterator[PostgresZnodeStore]:
    port = int(proxy.address.rpartition(":")[2])
    with closing(PostgresZnodeStore(postgres.url(options, port=port))) as store:
        store.multi([Create("/counter", b"0")])
        yield store


@contextmanager
def wired(postgres: PostgresServer) -> Iterator[Proxy]:
    with proxied(postgres.port, PostgresWire()) as proxy:
        yield proxy


# Lost answers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", Loss)
def test_a_commit_whose_answer_is_lost_counts_once(
    postgres: PostgresServer, loss: Loss, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "POSTGRES_STALL_MS", 300)
    with wired(postgres) as proxy, store_through(proxy, postgres) as store:
        runs = []

        def step(view: object) -> None:
            runs.append(increment(view))  # type: ignore[arg-type]

        proxy.lose_next(loss)
        store.transact(step)
        proxy.deliver_late()

        assert proxy.losses == 1
        assert number_at(store) == 1
        assert runs == [1]  # a request that got lost is made again by the store itself


@pytest.mark.parametrize("loss", [Loss.REPLY, Loss.REQUEST])
def test_what_became_of_a_commit_is_found_behind_commits_of_others(
    postgres: PostgresServer, loss: Loss, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it was not made, one of the others has its zxid."""
    with wired(postgres) as proxy, store_through(proxy, postgres) as store:
        before_asking(monkeypatch, lambda: [other.transact(increment) for _ in range(3)])
        with closing(PostgresZnodeStore(store.address.url)) as other:
            proxy.lose_next(loss)
            store.transact(increment)
        assert number_at(store) == 4


def test_an_outcome_that_others_have_overwritten_is_unknown(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "COMMITS_KEPT", 2)
    with wired(postgres) as proxy, store_through(proxy, postgres) as store:
        before_asking(monkeypatch, lambda: [other.transact(increment) for _ in range(2)])
        with closing(PostgresZnodeStore(store.address.url)) as other:
            proxy.lose_next(Loss.REPLY)
            with pytest.raises(OutcomeUnknownError, match="others wrote too much"):
                store.transact(increment)


def test_an_outcome_that_no_server_tells_is_unknown(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with wired(postgres) as proxy, store_through(proxy, postgres, f"{PLAIN}&timeout_ms=2000") as store:
        before_asking(monkeypatch, proxy.go_down)
        proxy.lose_next(Loss.REPLY)
        with pytest.raises(OutcomeUnknownError, match="no server tells how it went"):
            store.transact(increment)
        proxy.come_up()
        assert number_at(store) == 1


def before_asking(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Act once, before a store asks how a commit went."""
    ask = PostgresZnodeStore._was_committed

    def asking(*arguments: object) -> bool:
        monkeypatch.setattr(PostgresZnodeStore, "_was_committed", ask)
        act()
        return ask(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(PostgresZnodeStore, "_was_committed", asking)


# Servers that end -----------------------------------------------------------------------------------------------------


def write_and_tell(store: PostgresZnodeStore, end: int) -> None:
    """Add to the counter again and again, and write each number into a pipe when it is acknowledged."""
    while True:
        os.write(end, struct.pack("q", store.transact(increment)))


@contextmanager
def writers(store: PostgresZnodeStore, count: int) -> Iterator[list[int]]:
    """Processes that write; the list has what they were told, once the block has ended."""
    told: list[int] = []
    pipes = [os.pipe() for _ in range(count)]
    children = [forked(lambda end=end: write_and_tell(store, end)) for _, end in pipes]  # type: ignore[misc]
    for _, end in pipes:
        os.close(end)
    first = [os.read(start, 8) for start, _ in pipes]
    try:
        yield told
    finally:
        for child in children:
            kill(child)
        for (start, _), number in zip(pipes, first, strict=True):
            with os.fdopen(start, "rb") as left:
                data = number + left.read()
            told.extend(struct.unpack(f"{len(data) // 8}q", data))


@pytest.mark.walk("znodes on PostgreSQL")
def test_what_was_acknowledged_is_counted_once_although_the_server_is_killed_under_its_writers() -> None:
    with running_server() as server, closing(PostgresZnodeStore(server.url())) as store:
        store.multi([Create("/counter", b"0")])
        with writers(store, 3) as told:
            for end in (server.kill, lambda: server.stop(signal.SIGINT)):
                time.sleep(0.3)
                end()
                server.start()
                seen = number_at(store)
                until(lambda seen=seen: number_at(store) > seen + 20)  # type: ignore[misc]

        assert len(set(told)) == len(told)  # no number twice, so no increment was lost
        assert len(told) <= number_at(store) <= len(told) + 3  # what the killed writers were not told


@pytest.mark.walk("znodes on PostgreSQL")
def test_a_store_goes_on_after_a_restart_and_says_so_while_there_is_no_server() -> None:
    with running_server() as server, closing(PostgresZnodeStore(server.url("timeout_ms=1000"))) as store:
        store.multi([Create("/counter", b"0")])
        server.stop()
        for call in (lambda: store.get("/"), lambda: store.transact(increment)):
            with pytest.raises(StoreUnavailableError, match="check that there is a server that takes writes"):
                call()
        server.start()
        assert store.transact(increment) == 1

        server.pause()
        for call in (lambda: store.get("/"), lambda: store.transact(increment)):
            with pytest.raises(StoreUnavailableError, match=r"no answer within the time-out|timeout expired"):
                call()
        server.resume()
        assert store.transact(increment) == 2


@pytest.mark.walk("znodes on PostgreSQL")
def test_a_replica_that_takes_over_has_all_that_was_acknowledged_if_commits_wait_for_it() -> None:
    with running_server("synchronous_standby_names=second") as primary, new_server() as replica:
        replica.copy_of(primary, "second")
        with closing(PostgresZnodeStore(primary.url())) as waiting:
            writer = forked(lambda: waiting.multi([Create("/counter", b"0")]))
            time.sleep(0.5)
            assert os.waitpid(writer, os.WNOHANG) == (0, 0)  # the commit waits for the replica
            replica.start()
            wait_for([writer])
        both = waiting.address.url.replace("@", f"@127.0.0.1:{replica.port},")
        with closing(PostgresZnodeStore(both)) as store:
            with writers(store, 2) as told:
                until(lambda: number_at(store) > 50)
                primary.kill()
                seen = replica.ask(f"SELECT data FROM {store.address.schema}.oncelog_znodes WHERE name = 'counter'")
                replica.promote()
                until(lambda: number_at(store) > int(seen[0][0]) + 20)  # type: ignore[call-overload]
            assert len(set(told)) == len(told)
            assert len(told) <= number_at(store) <= len(told) + 2


@pytest.mark.walk("znodes on PostgreSQL")
def test_a_replica_alone_is_refused_until_it_takes_writes() -> None:
    with running_server() as primary, new_server() as replica:
        with closing(PostgresZnodeStore(primary.url())) as store:
            store.multi([Create("/a", b"1")])
        replica.copy_of(primary, "second")
        replica.start()
        url = store.address.url.replace(str(primary.port), str(replica.port)) + "&timeout_ms=500"
        with closing(PostgresZnodeStore(url, create=False)) as alone:
            with pytest.raises(StoreUnavailableError, match="hot standby"):
                alone.get("/a")
            replica.promote()
            until(lambda: replica.ask("SELECT NOT pg_is_in_recovery()") == [(True,)])
            assert alone.children("/") == ["a"]


# Processes ------------------------------------------------------------------------------------------------------------


def test_a_process_stopped_inside_a_step_holds_up_nobody_and_writes_nothing_when_it_wakes_too_late(
    world: PostgresWorld,
) -> None:
    stop_inside_a_step(world)


def test_a_process_stopped_with_the_lock_holds_up_others_for_a_while_and_asks_anew_when_it_wakes(
    store: PostgresZnodeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "POSTGRES_STALL_MS", 300)

    def work() -> None:
        asked: list[bool] = []

        def stop_and_wake_late() -> bool:
            asked.append(True)
            if len(asked) == 1:
                os.kill(os.getpid(), signal.SIGSTOP)
            return len(asked) == 1

        with pytest.raises(StaleStepError):
            store.multi([Create("/written")], is_fresh=stop_and_wake_late)
        assert len(asked) == 2

    pid = forked(work)
    os.waitpid(pid, os.WUNTRACED)
    assert store.transact(increment) == 1
    os.kill(pid, signal.SIGCONT)
    wait_for([pid])
    assert store.children("/") == ["counter"]


def test_a_child_forked_inside_a_step_cannot_read_its_parents_snapshot_and_can_use_the_store(
    store: PostgresZnodeStore,
) -> None:
    def work() -> None:
        with pytest.raises(IllegalStateTransitionError, match="belongs to the parent process"):
            reader.get("/counter")
        store.transact(increment)

    with store.snapshot() as reader:
        reader.get("/counter")
        wait_for([forked(work)])
        assert number_at(store) == 1
        before = reader.get("/counter")
    assert before is not None
    assert before.data == b"0"


def test_families_of_processes_and_threads_that_fork_lose_nothing(store: PostgresZnodeStore) -> None:
    increment_in_generations(store, 2)
    assert number_at(store) == 10
    assert number_at(store) + increment_while_forking(store, 4) + 4 == number_at(store)


def test_idle_connections_are_few_and_end_with_the_store(postgres: PostgresServer) -> None:
    store = PostgresZnodeStore(f"{postgres.url()}&application_name=counted")

    def connections() -> object:
        return postgres.ask("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'counted'")[0][0]

    with store.snapshot() as one, store.snapshot() as two, store.snapshot() as three:
        assert [reader.children("/") for reader in (one, two, three)] == [[], [], []]
        assert connections() == 3
    until(lambda: connections() == 2)
    del store, one, two, three
    until(lambda: gc.collect() is not None and connections() == 0)


# Poolers and settings -------------------------------------------------------------------------------------------------


def test_a_pooler_that_lends_connections_for_a_transaction_may_stand_in_between(postgres: PostgresServer) -> None:
    with pooler(postgres) as port, closing(PostgresZnodeStore(postgres.url(port=port))) as store:
        store.multi([Create("/counter", b"0")])
        children = [forked(lambda: [store.transact(increment) for _ in range(20)]) for _ in range(3)]
        wait_for(children)
        with store.snapshot() as reader:
            before = reader.get("/counter")
            store.transact(increment)
            assert reader.get("/counter") == before
        assert number_at(store) == 61


@pytest.mark.parametrize("where", Where)
def test_znodes_do_not_depend_on_the_settings_of_role_and_database(where: Where) -> None:
    data = bytes(range(256)) + rb"\x41 \\ '\''"
    with unusual_server(where) as (server, url_with), closing(PostgresZnodeStore(url_with(""))) as store:
        store.multi([Create("/it's \\ a name", data), Create("/counter", b"0")])
        store.multi([Set("/it's \\ a name", data[::-1], 0), Create("/empty", b"")])
        store.transact(increment)
        with store.snapshot() as reader:
            read = reader.get("/it's \\ a name")

        assert read is not None
        assert read.data == data[::-1]
        stored = server.ask(f"SELECT name, data FROM {store.address.schema}.oncelog_znodes WHERE name <> '' ORDER BY 1")
        assert stored == [("counter", b"1"), ("empty", b""), ("it's \\ a name", data[::-1])]


def test_commits_are_durable_although_database_and_role_say_otherwise(postgres: PostgresServer) -> None:
    postgres.ask("CREATE ROLE hasty LOGIN SUPERUSER")
    postgres.ask("ALTER ROLE hasty SET synchronous_commit = off")
    postgres.ask("ALTER ROLE hasty SET default_transaction_read_only = on")
    postgres.ask("ALTER ROLE hasty SET default_transaction_isolation = serializable")
    with closing(PostgresZnodeStore(postgres.url(user="hasty"))) as store:
        store.multi([Create("/counter", b"0")])
        schema = store.address.schema
        postgres.ask(f"CREATE TABLE {schema}.seen (durable text, isolation text)")
        postgres.ask(
            f"CREATE FUNCTION {schema}.see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO {schema}.seen "
            "VALUES (current_setting('synchronous_commit'), current_setting('transaction_isolation')); RETURN NULL; "
            "END $$"
        )
        postgres.ask(f"CREATE TRIGGER see AFTER UPDATE ON {schema}.oncelog_store EXECUTE FUNCTION {schema}.see()")
        store.transact(increment)
        assert postgres.ask(f"SELECT * FROM {schema}.seen") == [("on", "read committed")]


def test_the_time_of_znodes_is_the_servers_and_never_goes_back(postgres: PostgresServer) -> None:
    timing = Timing(lambda: 0, SYSTEM_CLOCK, uniform_jitter)
    with closing(PostgresZnodeStore(postgres.url(), timing=timing)) as store:
        store.multi([Create("/a")])
        found = store.get("/a")
        assert found is not None
        assert abs(found.stat.mtime_ms - wall_ms()) < 5_000
        postgres.ask(f"UPDATE {store.address.schema}.oncelog_store SET last_ms = 4000000000000")
        store.multi([Set("/a", b"")])
        found = store.get("/a")
        assert found is not None
        assert found.stat.mtime_ms == 4_000_000_000_000


def test_a_multi_of_the_largest_size_passes(store: PostgresZnodeStore) -> None:
    names = [f"/{number:03}" for number in range(MULTI_MAX_OPS)]
    store.multi([Create(name, b"x" * (MULTI_MAX_BYTES // MULTI_MAX_OPS - len(name))) for name in names])
    assert len(store.children_data("/")) == MULTI_MAX_OPS + 1
    store.multi([Delete(name) for name in names])
    assert store.children("/") == ["counter"]


# Refusals -------------------------------------------------------------------------------------------------------------


def refused(url: str, kind: type[Exception], match: str, *, create: bool = True) -> Exception:
    """What the error of a read says."""
    with closing(PostgresZnodeStore(url, create=create)) as store, pytest.raises(kind, match=match) as caught:
        store.get("/")
    assert SECRET not in f"{caught.value!r}{caught.value}"
    return caught.value


def test_who_may_not_use_the_database_is_told_what_is_needed(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for statement in ("CREATE ROLE locked LOGIN PASSWORD 'other'", "CREATE ROLE poor LOGIN"):
        postgres.ask(statement)
    access = "check user and database in the URL, the password in PGPASSWORD"

    refused(postgres.url(user="locked"), StoreAccessError, f"{access}.*no password supplied")
    monkeypatch.setenv("PGPASSWORD", SECRET)
    refused(postgres.url(user="locked"), StoreAccessError, f"{access}.*password authentication failed")
    refused(postgres.url(database="nowhere"), StoreAccessError, f"{access}.*nowhere.*does not exist")
    refused(postgres.url(user="nobody_here"), StoreAccessError, f"{access}.*does not exist")
    refused(postgres.url(user="poor"), StoreAccessError, "which needs CREATE on the database, or a schema of its own")
    assert SECRET not in caplog.text

    monkeypatch.setenv("PGPASSWORD", "other")
    postgres.ask("CREATE SCHEMA of_locked AUTHORIZATION locked")
    with closing(PostgresZnodeStore(postgres.url("schema=of_locked", user="locked"))) as store:
        store.multi([Create("/a")])
        assert b"other" not in pickle.dumps(store)
        assert pickle.loads(pickle.dumps(store)).children("/") == ["a"]
        assert "other" not in repr(store)


def test_rights_that_are_taken_away_and_tables_that_are_dropped_are_told(postgres: PostgresServer) -> None:
    postgres.ask("CREATE ROLE reader LOGIN")
    with closing(PostgresZnodeStore(postgres.url())) as owner:
        owner.multi([Create("/counter", b"0")])
        schema = owner.address.schema
        postgres.ask(f"GRANT USAGE ON SCHEMA {schema} TO reader")
        postgres.ask(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO reader")
        with closing(PostgresZnodeStore(postgres.url(f"schema={schema}", user="reader"))) as store:
            assert number_at(store) == 0
            with pytest.raises(StoreAccessError, match="permission denied"):
                store.transact(increment)
        postgres.ask(f"DROP SCHEMA {schema} CASCADE")
        with pytest.raises(StoreAccessError, match="removed or changed while it was open"):
            owner.get("/")
        with pytest.raises(StoreAccessError, match="removed or changed while it was open"):
            owner.multi([Create("/a")])


def test_a_store_that_is_not_there_is_not_created_unasked(postgres: PostgresServer) -> None:
    url = postgres.url()
    refused(url, InvalidOptionError, "there is no znode store at this URL", create=False)
    with pytest.raises(UsageError, match="there is no znode store at this URL"):
        metadata.open_metadata(url, create=False)
    assert not postgres.ask("SELECT 1 FROM pg_namespace WHERE nspname = 'oncelog'")


def test_a_database_that_cannot_keep_metadata_is_refused(postgres: PostgresServer) -> None:
    postgres.ask("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    refused(postgres.url(database="latin"), StoreAccessError, "encoding of the database is LATIN1")
    url = postgres.url()
    with closing(PostgresZnodeStore(url)) as store:
        store.get("/")
        postgres.ask(f"UPDATE {store.address.schema}.oncelog_store SET format = 2")
    refused(url, UnsupportedFormatError, "a newer oncelog created the tables")


@pytest.mark.walk("znodes on PostgreSQL")
def test_a_server_that_does_not_wait_for_its_disk_is_refused_unless_replicas_keep_what_it_acknowledges() -> None:
    with running_server("fsync=off") as server:
        refused(server.url(), StoreAccessError, "it runs with fsync=off")
        server.ask("ALTER SYSTEM SET synchronous_standby_names = 'second'")
        server.ask("SELECT pg_reload_conf()")
        until(lambda: server.ask("SHOW synchronous_standby_names") == [("second",)])
        refused(f"{server.url()}&timeout_ms=500", StoreUnavailableError, "within the time-out")  # for want of a replica


def test_many_processes_may_create_one_store_at_a_time(postgres: PostgresServer) -> None:
    url = postgres.url()

    def work() -> None:
        with closing(PostgresZnodeStore(url)) as store:
            store.transact(doing(("set", "/", b"x")))

    wait_for([forked(work) for _ in range(6)])
    with closing(PostgresZnodeStore(url, create=False)) as store:
        root = store.get("/")
    assert root is not None
    assert root.stat.version == 6


# Logs and ledgers -----------------------------------------------------------------------------------------------------


def test_a_log_and_a_ledger_in_one_database_have_a_schema_each(postgres: PostgresServer, tmp_path: Path) -> None:
    url, ledger = postgres.url(), postgres.url()
    with oncelog.open(tmp_path / "log", url) as log:
        log.create_topic(TOPIC, partitions=2)
        with started(log) as producer:
            write_committed(producer, *numbered("a", 3))
        metadata.open_metadata(ledger.replace("postgresql:", "postgres:")).close()
        metadata.open_metadata(ledger, create=False).close()
        with oncelog.open(tmp_path / "log", log.znodes, create=False) as by_tasks:
            assert values(by_tasks) == numbered("a", 3)
            assert by_tasks.cluster_id == log.cluster_id
        invariants.check(log)


def test_the_metadata_of_a_log_is_copied_into_a_database_and_the_doctor_finds_it_well(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    with oncelog.open(tmp_path / "log") as log:
        log.create_topic(TOPIC, partitions=2)
        with started(log) as producer:
            write_committed(producer, *numbered("a", 3))
    url = postgres.url()

    def run(*arguments: str) -> str:
        done = CliRunner().invoke(main, ["--path", str(tmp_path / "log"), *arguments])
        assert done.exit_code == 0, done.output
        return done.output

    assert f"--znodes '{url}'\n" in run("meta", "copy", "--to", url)
    with oncelog.open(tmp_path / "log", url, create=False) as log:
        assert values(log) == numbered("a", 3)
    shown = json.loads(run("--znodes", url, "doctor", "--json"))
    assert any("PostgreSQL" in finding["check"] for finding in shown["findings"])
