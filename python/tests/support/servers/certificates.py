"""Certificates of a test: an authority, whom it vouches for, and a stranger."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of those that all tests of a run share: see `make_certificates`."""
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def make_certificates(folder: Path) -> Path:
    """Write a CA, a server of 127.0.0.1 and a client that it vouches for, and a stranger's CA; returns the folder.

    Of each there are `NAME.key` and `NAME.pem`; of the server and the client also `NAME.crt`, without the key that is
    in `NAME.pem`.
    """
    authority = ["-addext", "keyUsage=critical,keyCertSign,cRLSign", "-days", "2"]  # Python 3.13 asks for the usage
    for name in ("ca", "stranger"):
        _openssl(folder, "req", "-x509", *_new_key(name), "-out", f"{name}.pem", "-subj", f"/CN={name}", *authority)
    for name in ("server", "client"):
        _openssl(folder, "req", *_new_key(name), "-out", f"{name}.csr", "-subj", f"/CN={name}")
        (folder / "extensions").write_text("subjectAltName=IP:127.0.0.1\nauthorityKeyIdentifier=keyid\n")
        signing = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "extensions", "-days", "2"]
        _openssl(folder, "x509", "-req", "-in", f"{name}.csr", "-out", f"{name}.crt", *signing)
        (folder / f"{name}.pem").write_text((folder / f"{name}.key").read_text() + (folder / f"{name}.crt").read_text())
    return folder


def _new_key(name: str) -> list[str]:
    return ["-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key"]


def _openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)
