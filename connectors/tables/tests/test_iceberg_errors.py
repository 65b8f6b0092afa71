"""Errors of pyiceberg, of its catalogs' clients and of Python become oncelog's, each with its true reason."""

from __future__ import annotations

import pytest
from pyiceberg import exceptions
from pyiceberg.catalog import load_catalog

from oncelog.errors import CorruptDataError, OncelogError, UsageError
from oncelog_tables.errors import TableUnavailableError
from oncelog_tables.iceberg_errors import translated


class TTransportException(Exception):  # noqa: N818 - its name there
    """As Thrift's, which is not installed."""


def told(problem: Exception) -> OncelogError:
    with pytest.raises(OncelogError) as found, translated("lake.t"):
        raise problem
    assert found.value.fields["table"] == "lake.t"
    return found.value


@pytest.mark.parametrize(
    ("problem", "kind", "message"),
    [
        (exceptions.NoSuchTableError("gone"), UsageError, "the catalog has no such table"),
        (exceptions.NoSuchNamespaceError("gone"), UsageError, "the catalog has no such table"),
        (ConnectionRefusedError(111, "refused"), TableUnavailableError, "cannot be reached now"),
        (TimeoutError("60 s"), TableUnavailableError, "cannot be reached now"),
        (exceptions.ServiceUnavailableError("busy"), TableUnavailableError, "cannot be reached now"),
        (TTransportException("broken pipe"), TableUnavailableError, "cannot be reached now"),
        (exceptions.ForbiddenError("not you"), TableUnavailableError, "denies access"),
        (exceptions.OAuthError("expired"), TableUnavailableError, "denies access"),
        (PermissionError(13, "denied"), TableUnavailableError, "denies access"),
        (FileNotFoundError(2, "metadata.json"), TableUnavailableError, "is missing"),
        (exceptions.BadRequestError("malformed"), UsageError, "correct what the reason names"),
        (exceptions.NotInstalledError("pip install pyiceberg[hive]"), UsageError, "correct what the reason names"),
        (UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates"), UsageError, "correct what the reason names"),
        (RuntimeError("out of luck"), TableUnavailableError, "or the client of the table's catalog, failed"),
    ],
)
def test_an_error_has_the_class_and_the_words_of_its_cause(
    problem: Exception, kind: type[OncelogError], message: str
) -> None:
    found = told(problem)

    assert type(found) is kind
    assert message in found.message
    assert ("cannot be reached" in str(found)) == (message == "cannot be reached now")
    assert " ".join(str(problem).split()) in found.fields["reason"]


def test_options_that_name_no_catalog_are_not_called_unreachable() -> None:
    with pytest.raises(UsageError, match=r"correct what the reason names.*table='t'.*type"), translated("t"):
        load_catalog("lake", type="no such type")


def test_errors_that_have_their_class_keep_it() -> None:
    for problem in (CorruptDataError("damaged"), exceptions.CommitFailedException("overtaken")):
        with pytest.raises(type(problem)) as found, translated("t"):
            raise problem
        assert found.value is problem
