"""Who may see the znodes on ZooKeeper, and where the secrets that decide it are never found."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.security import OPEN_ACL_UNSAFE

import oncelog
from oncelog.errors import InvalidOptionError, OncelogError, StoreAccessError, StoreUnavailableError, UsageError
from oncelog.ports import Create
from oncelog.znodes.zookeeper import ZookeeperZnodeStore
from tests.support.servers.zookeeper import ZookeeperServer, free_ports, running_server
from tests.unit.znodes.worlds import dump, forked, increment, wait_for

pytestmark = pytest.mark.slow

SECRET = "correct-horse-battery"
OWNER = f"owner:{SECRET}"


@pytest.fixture
def credentials(tmp_path: Path) -> Path:
    place = tmp_path / "credentials"
    place.write_text(f"{OWNER}\n")
    return place


def acls(server: ZookeeperServer, path: str) -> list[tuple[int, str]]:
    """Permissions and identity scheme of each entry of a znode's ACL, as the server's own administrator sees it."""
    client = KazooClient(server.address, auth_data=[("digest", OWNER)])
    client.start()
    try:
        return [(acl.perms, acl.id.scheme) for acl in client.get_acls(path)[0]]
    finally:
        client.stop()
        client.close()


# Digest


def test_with_credentials_every_znode_lets_only_them_in(zookeeper: ZookeeperServer, credentials: Path) -> None:
    chroot = zookeeper.chroot() + "/private/log"
    url = f"zk://{zookeeper.address}{chroot}?auth=digest&credentials_file={credentials}"
    with closing(ZookeeperZnodeStore(url)) as store:
        store.transact(lambda view: view.create("/a/b", b"1"))
        assert store.transact(lambda view: view.get("/a/b")) is not None
    for path in (chroot.removesuffix("/log"), chroot, f"{chroot}/a", f"{chroot}/a/b"):
        assert acls(zookeeper, path) == [(31, "digest")]


def test_a_client_without_the_credentials_gets_an_error_that_says_so(
    zookeeper: ZookeeperServer, credentials: Path, tmp_path: Path
) -> None:
    open_url = zookeeper.url()
    (tmp_path / "others").write_text("owner:wrong")
    with oncelog.open(tmp_path, f"{open_url}?auth=digest&credentials_file={credentials}") as log:
        log.create_topic("flights")

    for options in ("", f"?auth=digest&credentials_file={tmp_path / 'others'}"):
        for create in (True, False):
            with pytest.raises(StoreAccessError, match="credentials") as caught:
                oncelog.open(tmp_path, f"{open_url}{options}", create=create)
            assert SECRET not in str(caught.value)
            assert "wrong" not in str(caught.value)


def test_a_client_without_the_credentials_writes_nothing(zookeeper: ZookeeperServer, credentials: Path) -> None:
    url = zookeeper.url()
    with (
        closing(ZookeeperZnodeStore(f"{url}?auth=digest&credentials_file={credentials}")) as store,
        closing(ZookeeperZnodeStore(url)) as stranger,
    ):
        store.multi([Create("/a")])
        for call in (
            lambda: stranger.multi([Create("/b")]),
            lambda: stranger.transact(lambda view: view.create("/b")),
            lambda: stranger.get("/a"),
            lambda: stranger.children("/"),
        ):
            with pytest.raises(StoreAccessError):
                call()
        assert set(dump(store)) == {"/", "/a"}


def test_credentials_with_a_chroot_that_everyone_may_change_are_refused(
    zookeeper: ZookeeperServer, credentials: Path
) -> None:
    url = zookeeper.url()
    with closing(ZookeeperZnodeStore(url)) as store:
        store.sync()
    with (
        closing(ZookeeperZnodeStore(f"{url}?auth=digest&credentials_file={credentials}")) as store,
        pytest.raises(StoreAccessError, match="everyone"),
    ):
        store.sync()


def test_without_credentials_znodes_are_open(zookeeper: ZookeeperServer) -> None:
    chroot = zookeeper.chroot()
    with closing(ZookeeperZnodeStore(f"zk://{zookeeper.address}{chroot}")) as store:
        store.multi([Create("/a")])
    assert acls(zookeeper, f"{chroot}/a") == [(OPEN_ACL_UNSAFE[0].perms, "world")]


# Places of credentials


def test_missing_and_malformed_credentials_name_their_place_and_not_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "credentials"
    place.write_text(SECRET)
    monkeypatch.setenv("MALFORMED", f":{SECRET}")
    for option, names in {
        "credentials_env=NO_SUCH_VARIABLE": "NO_SUCH_VARIABLE",
        "credentials_env=MALFORMED": "MALFORMED",
        f"credentials_file={tmp_path}/none": "none",
        f"credentials_file={place}": "credentials",
    }.items():
        with (
            closing(ZookeeperZnodeStore(f"zk://127.0.0.1:1/log?auth=digest&{option}")) as store,
            pytest.raises(InvalidOptionError) as caught,
        ):
            store.sync()
        assert names in str(caught.value)
        assert SECRET not in str(caught.value)


def test_each_process_reads_the_credentials_for_itself(
    zookeeper: ZookeeperServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONCELOG_ZOOKEEPER_CREDENTIALS", OWNER)
    with closing(ZookeeperZnodeStore(zookeeper.url("auth=digest"))) as store:
        store.multi([Create("/counter", b"0")])
        wait_for([forked(lambda: store.transact(increment))])
        with closing(pickle.loads(pickle.dumps(store))) as copy:
            assert copy.transact(increment) == 2


def test_a_secret_is_in_no_pickle_no_text_and_no_log(
    zookeeper: ZookeeperServer, credentials: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url = zookeeper.url(f"auth=digest&credentials_file={credentials}")
    with caplog.at_level(1), closing(ZookeeperZnodeStore(url)) as store:
        logging.getLogger("oncelog.znodes.zookeeper.session").setLevel(1)
        store.multi([Create("/a")])
        link = store._link.session(store._link.deadline_s())
        shown = [repr(store), str(store.address), repr(store.address), repr(link), repr(vars(store)), caplog.text]
    assert SECRET.encode() not in pickle.dumps(store)
    assert not [text for text in shown if SECRET in text]
    with oncelog.open(tmp_path, url) as log:
        assert log.znodes == url
    assert store.address.place is not None
    read = store.address.place.read()
    assert SECRET not in repr(read)
    with pytest.raises(UsageError, match="never leave"):
        pickle.dumps(read)


# SASL


@pytest.fixture(scope="module")
def sasl_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZookeeperServer]:
    folder = tmp_path_factory.mktemp("sasl")
    jaas = folder / "jaas.conf"
    jaas.write_text(
        f'Server {{ org.apache.zookeeper.server.auth.DigestLoginModule required user_owner="{SECRET}"; }};\n'
    )
    provider = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
    java = [f"-Djava.security.auth.login.config={jaas}", f"-Dzookeeper.authProvider.sasl={provider}"]
    with running_server(folder, java=java) as server:
        yield server


def test_sasl_credentials_let_in_and_keep_others_out(
    sasl_server: ZookeeperServer, credentials: Path, tmp_path: Path
) -> None:
    url = sasl_server.url()
    with oncelog.open(tmp_path, f"{url}?auth=sasl&credentials_file={credentials}") as log:
        log.create_topic("flights")
        assert log.admin.list_topics()
    with pytest.raises(StoreAccessError):
        oncelog.open(tmp_path, url)


def test_a_wrong_sasl_password_is_an_error_and_not_repeated(sasl_server: ZookeeperServer, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text(f"owner:{SECRET[:-1]}")
    with (
        closing(ZookeeperZnodeStore(sasl_server.url(f"auth=sasl&credentials_file={wrong}"))) as store,
        pytest.raises(StoreAccessError) as caught,
    ):
        store.sync()
    assert SECRET[:-1] not in str(caught.value)


# TLS


@pytest.fixture(scope="module")
def tls_url(tmp_path_factory: pytest.TempPathFactory, certificates: Path) -> Iterator[str]:
    """Of a chroot on a server that asks clients for a certificate."""
    (port,) = free_ports(1)
    settings = [
        f"secureClientPort={port}",
        "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
        f"ssl.keyStore.location={certificates / 'server.pem'}",
        f"ssl.trustStore.location={certificates / 'ca.pem'}",
    ]
    with running_server(tmp_path_factory.mktemp("tls"), settings=settings) as server:
        yield f"zk://127.0.0.1:{port}{server.chroot()}?timeout_ms=3000"


def client_options(certificates: Path) -> str:
    pair = f"tls_cert={certificates / 'client.crt'}&tls_key={certificates / 'client.key'}"
    return f"&tls=true&tls_ca={certificates / 'ca.pem'}&{pair}"


def test_a_client_certificate_lets_in_and_keeps_others_out(tls_url: str, certificates: Path) -> None:
    with closing(ZookeeperZnodeStore(f"{tls_url}{client_options(certificates)}&auth=x509")) as store:
        store.multi([Create(f"/{number}") for number in range(500)])
        assert all(store.get_many(f"/{number}" for number in range(500)))
        assert len(store.children_data("/")) == 500


def test_a_server_that_the_ca_does_not_vouch_for_is_not_trusted(tls_url: str, certificates: Path) -> None:
    url = f"{tls_url}&tls=true&tls_ca={certificates / 'stranger.pem'}"
    with closing(ZookeeperZnodeStore(url)) as store, pytest.raises(StoreUnavailableError) as caught:
        store.sync()
    assert "certificate" in caught.value.fields["reason"]


@pytest.mark.parametrize("options", ["", "&tls=true&tls_ca={ca}"], ids=["no TLS", "no certificate"])
def test_a_client_that_the_server_does_not_take_is_an_error(tls_url: str, certificates: Path, options: str) -> None:
    url = tls_url + options.format(ca=certificates / "ca.pem")
    with closing(ZookeeperZnodeStore(url)) as store, pytest.raises(OncelogError):
        store.sync()


def test_files_for_tls_that_cannot_be_used_are_an_error_that_names_them(certificates: Path) -> None:
    for option in ("tls_ca=/none", f"tls_cert={certificates}/ca.pem&tls_key={certificates}/client.key"):
        with (
            closing(ZookeeperZnodeStore(f"zk://127.0.0.1:1/log?tls=true&{option}")) as store,
            pytest.raises(InvalidOptionError),
        ):
            store.sync()
