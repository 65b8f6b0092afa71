"""The store on ZooKeeper: what a URL may say, and what each error of kazoo means. No server is asked."""

from __future__ import annotations

import inspect

import kazoo.exceptions
import kazoo.handlers.threading
import kazoo.retry
import pytest

from oncelog.errors import InvalidOptionError, OncelogError
from oncelog.znodes.zookeeper.address import CHROOT_MAX_LENGTH, ZookeeperAddress
from oncelog.znodes.zookeeper.failures import MEANINGS, REFUSALS, Meaning, translated

# URLs


def test_a_url_names_servers_a_chroot_and_how_to_get_there() -> None:
    address = ZookeeperAddress.parse(
        "zk://h1,h2:2182,[::1]:2183/a/b?timeout_ms=5&session_ms=6&auth=digest&credentials_file=/etc/zk"
        "&tls=true&tls_ca=/ca&tls_cert=/c&tls_key=/k&tls_verify_hostname=false"
    )

    assert (address.servers, address.chroot) == ("h1:2181,h2:2182,[::1]:2183", "/a/b")
    assert (address.timeout_ms, address.session_ms) == (5, 6)
    assert str(address.place) == "file /etc/zk"
    assert address.tls is not None
    assert (address.tls.ca, address.tls.certificate, address.tls.key) == ("/ca", "/c", "/k")
    assert not address.tls.verify_hostname
    assert str(address) == "zk://h1:2181,h2:2182,[::1]:2183/a/b"


def test_the_credentials_are_in_an_environment_variable_unless_a_place_is_named() -> None:
    for options, place in {
        "auth=sasl": "environment variable ONCELOG_ZOOKEEPER_CREDENTIALS",
        "auth=digest&credentials_env=OTHER": "environment variable OTHER",
    }.items():
        assert str(ZookeeperAddress.parse(f"zk://h/log?{options}").place) == place
    assert ZookeeperAddress.parse("zk://h/log").place is None


@pytest.mark.parametrize(
    "url",
    [
        *(
            "zk:",
            "zk:h/log",
            "zk://",
            "zk://h",
            "zk://h/",
            "zk:///log",
            "zk://h:port/log",
            "zk://h,/log",
            "zk://h/a//b",
        ),
        *("zk://h/../b", "zk://h/a?timeout_ms=0", "zk://h/a?timeout_ms=soon", "zk://h/a?session_ms=-1"),
        *("zk://h/a?auth=kerberos", "zk://h/a?credentials_file=/f", "zk://h/a?auth=digest&credentials_file=f"),
        *("zk://h/a?auth=digest&credentials_env=A&credentials_file=/f", "zk://h/a?auth=digest&credentials_env=a:b"),
        *("zk://h/a?tls_ca=/ca", "zk://h/a?tls=yes", "zk://h/a?tls=true&tls_cert=/c", "zk://h/a?auth=x509&tls=true"),
        *("zk://h/a?timeout_ms=1&timeout_ms=2", f"zk://h/{'a' * CHROOT_MAX_LENGTH}"),
    ],
)
def test_a_malformed_url_is_an_error(url: str) -> None:
    with pytest.raises(InvalidOptionError):
        ZookeeperAddress.parse(url)


def test_an_unknown_option_is_an_error_that_suggests_the_nearest() -> None:
    with pytest.raises(InvalidOptionError) as caught:
        ZookeeperAddress.parse("zk://h/log?timeout=5")
    assert caught.value.fields["did_you_mean"] == "timeout_ms"


# Errors of kazoo


def errors_of_kazoo() -> dict[str, type[Exception]]:
    found = {}
    for module in (kazoo.exceptions, kazoo.retry, kazoo.handlers.threading):
        for _, kind in inspect.getmembers(module, inspect.isclass):
            if issubclass(kind, Exception) and kind.__module__.startswith("kazoo."):
                found[kind.__name__] = kind
    return found


def test_every_error_of_kazoo_has_one_meaning() -> None:
    known = errors_of_kazoo().keys()

    assert len(known) > 40
    assert known == MEANINGS.keys() | REFUSALS.keys()
    assert not MEANINGS.keys() & REFUSALS.keys()


def test_only_what_a_server_refuses_before_it_carries_out_anything_counts_as_not_written() -> None:
    """A write that a lost connection or session cut short may have been carried out.

    conformance: 67.
    """
    assert {name for name, meaning in MEANINGS.items() if meaning in {Meaning.NOT_DONE, Meaning.FULL}} == {
        "ThrottledOpError",
        "NotReadOnlyCallError",
        "NewConfigNoQuorumError",
        "ReconfigInProcessError",
        "QuotaExceededError",
    }


@pytest.mark.parametrize("name", sorted(MEANINGS))
def test_an_error_of_kazoo_becomes_one_that_says_what_to_do(name: str) -> None:
    error = translated(errors_of_kazoo()[name](), path="/a")

    assert type(error).__module__.startswith("oncelog.")
    if MEANINGS[name] not in {Meaning.NO_ANSWER, Meaning.BUG, Meaning.BY_ANOTHER}:
        assert isinstance(error, OncelogError)
        assert error.fields["path"] == "/a"


def test_an_error_that_nobody_knows_counts_as_no_answer() -> None:
    assert str(translated(RuntimeError("xids do not match"))) == "RuntimeError: xids do not match"
