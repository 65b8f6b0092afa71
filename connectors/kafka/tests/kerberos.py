"""A Kerberos realm of a test: MIT's own KDC, in a folder."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from oncelog.testing.kafka_broker import TV2_VERSION, KafkaBroker
from oncelog.testing.server_process import free_ports
from tests.support.harness.waiting import until

REALM = "ONCELOG.TEST"
Options = dict[str, Any]

_PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"
_PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local")


def has_kdc() -> bool:
    return all(shutil.which(name, path=_PATH) for name in _PROGRAMS)


class Realm:
    """Its principals have their keys in files of `folder`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        (port,) = free_ports(1)
        self.settings = folder / "krb5.conf"
        self.settings.write_text(
            f"[libdefaults]\ndefault_realm = {REALM}\nudp_preference_limit = 1\ndns_lookup_kdc = false\n"
            f"dns_canonicalize_hostname = false\nrdns = false\n"
            f"[realms]\n{REALM} = {{\n  kdc = 127.0.0.1:{port}\n}}\n"
        )
        (folder / "kdc.conf").write_text(
            f"[kdcdefaults]\nkdc_listen = 127.0.0.1:{port}\nkdc_tcp_listen = 127.0.0.1:{port}\n"
            f"[realms]\n{REALM} = {{\n  database_name = {folder}/principal\n  key_stash_file = {folder}/stash\n}}\n"
            f"[logging]\nkdc = FILE:{folder}/kdc.log\n"
        )
        self._environment = {
            **os.environ,
            "PATH": _PATH,
            "KRB5_CONFIG": str(self.settings),
            "KRB5_KDC_PROFILE": str(folder / "kdc.conf"),
        }

        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "secret-of-the-realm")

    @contextmanager
    def serving(self) -> Iterator[None]:
        """The KDC answers for the time of the block."""
        log = self._folder / "kdc.log"
        log.unlink(missing_ok=True)
        with (self._folder / "kdc.out").open("ab") as output:
            kdc = subprocess.Popen(["krb5kdc", "-n", "-r", REALM], env=self._environment, stdout=output, stderr=output)
        try:
            until(lambda: log.exists() and "commencing operation" in log.read_text(), within_s=20)
            yield
        finally:
            kdc.terminate()
            kdc.wait(10)

    def login(self, principal: str, *, lifetime_s: int = 3_600) -> str:
        """A new principal, with tickets of some lifetime; how Java logs in as it."""
        keys = self._folder / f"{principal.replace('/', '-')}.keytab"
        self._run("kadmin.local", "-q", f'addprinc -randkey -maxlife "{lifetime_s} seconds" {principal}@{REALM}')
        self._run("kadmin.local", "-q", f"ktadd -k {keys} {principal}@{REALM}")
        return (
            "com.sun.security.auth.module.Krb5LoginModule required refreshKrb5Config=true useKeyTab=true storeKey=true "
            f'keyTab="{keys}" principal="{principal}@{REALM}";'
        )

    @contextmanager
    def broker(self, user: str, folder: Path, *, lifetime_s: int = 3_600) -> Iterator[tuple[KafkaBroker, Options]]:
        """A broker of this realm, and the options by which a sink is let in as `user`, on all JVMs from here on."""
        client, controller, door = free_ports(3)
        doors = f"PLAINTEXT://127.0.0.1:{client},KRB://localhost:{door}"
        settings = {
            "listeners": f"{doors},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": doors,
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,KRB:SASL_PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "listener.name.krb.gssapi.sasl.jaas.config": self.login("kafka/localhost"),
        }
        login: Options = {
            "kafka.bootstrap.servers": f"localhost:{door}",
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "GSSAPI",
            "kafka.sasl.kerberos.service.name": "kafka",
            "kafka.sasl.jaas.config": self.login(user, lifetime_s=lifetime_s),
        }
        java = f"-Djava.security.krb5.conf={self.settings}"
        broker = KafkaBroker(folder, version=TV2_VERSION, settings=settings, port=client, java=[java])
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("JDK_JAVA_OPTIONS", java)
            try:
                broker.start()
                broker.wait_until_serving()
                yield broker, login
            finally:
                broker.stop()

    def _run(self, *command: str) -> None:
        subprocess.run(command, env=self._environment, check=True, capture_output=True)
