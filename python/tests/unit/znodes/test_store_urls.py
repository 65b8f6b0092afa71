"""URLs of stores on servers, whichever they are: no secret gets out, and a missing package is named."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import oncelog
from oncelog.errors import UsageError
from oncelog.znodes.schemes import Place

SECRET = "correct-horse-battery"


@pytest.mark.parametrize(
    "url",
    [
        f"zk://user:{SECRET}@h/log",
        f"zk://h/log?password={SECRET}",
        f"zk://h/log?auth={SECRET}",
        f"zk://h/log?auth=digest&credentials_file={SECRET}",
        f"zk://h/log?auth=digest&credentials_env=user:{SECRET}",
        f"zookeeper://user:{SECRET}@h/log",
        f"postgresql://user:{SECRET}@h/d",
        f"postgresql://user:{SECRET}@@h/d",
        f"postgresql://h/d?password={SECRET}",
        f"postgresql://h/d?sslpassword={SECRET}",
        f"postgresql://h/d?sslmode={SECRET}%00",
        f"postgresql://h/d?passfile={SECRET}",
    ],
)
def test_a_secret_that_somebody_put_into_a_url_is_refused_and_not_repeated(url: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        oncelog.open(tmp_path, url)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("package", "url", "root", "extra"),
    [
        ("kazoo", "zk://h/log", "/data/log", "zookeeper"),
        ("psycopg", "postgresql://h/d", "/data/log", "postgres"),
        ("botocore", "s3", "s3://bucket/log", "s3"),
    ],
)
def test_without_its_package_the_error_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, package: str, url: str, root: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)

    with pytest.raises(UsageError, match=rf"needs? the package {package}: install oncelog\[{extra}\]"):
        Place.of(url, root)
