"""Objects on a real S3 server: the contract, what is sent when, and what happens when the store refuses."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from oncelog.buckets import ObjectPlace
from oncelog.errors import FileUnavailableError, FileWriteError, InvalidOptionError, OncelogError
from oncelog.log.files import absolute, file_store
from oncelog.log.object_files import ObjectFileStore
from oncelog.ports import FileStore
from tests.support.servers.s3 import BUCKET, SECRET, S3Server, cutter, running_server, s3
from tests.unit.log.file_store_contract import LARGE, NAME, FileStoreContract, named, write
from tests.unit.znodes.worlds import forked, wait_for

pytestmark = pytest.mark.slow

__all__ = ["s3"]


@pytest.fixture
def files(s3: S3Server) -> FileStore:
    return file_store(s3.url())


class TestObjectFileStore(FileStoreContract):
    """The contract, on the fixture `files`."""


def uses(files: FileStore) -> list[Callable[[], object]]:
    """Everything one asks of a store, but for writing."""
    return [
        lambda: files.read(NAME, 0, 7),
        lambda: files.size(NAME),
        lambda: list(files.names("data")),
        lambda: files.delete(NAME),
    ]


# What is sent when ---------------------------------------------------------------------------------------------------


def test_nothing_is_in_the_bucket_before_an_object_is_finished(s3: S3Server, files: FileStore) -> None:
    before = len(s3.requests())
    output = files.create(NAME)
    output.write(LARGE)
    assert s3.requests()[before:] == []

    output.finish()
    assert named(files) == [NAME]


def test_a_writer_that_is_killed_before_it_finishes_leaves_nothing(s3: S3Server, files: FileStore) -> None:
    before = len(s3.requests())

    def die() -> None:
        files.create(NAME).write(LARGE)
        os._exit(0)

    wait_for([forked(die)])

    assert s3.requests()[before:] == []


def test_a_small_object_is_one_put_and_a_discarded_one_nothing(s3: S3Server, files: FileStore) -> None:
    before = len(s3.requests())
    write(files, NAME)
    output = files.create("data/discarded")
    output.write(b"content")
    output.discard()

    ((method, path),) = s3.requests()[before:]
    assert method == "PUT"
    assert path.endswith(f"/{NAME}")


def test_the_size_of_an_object_is_asked_for_once_whatever_is_read_of_it(s3: S3Server, files: FileStore) -> None:
    write(files, NAME)
    before = len(s3.requests())
    for position in range(7):
        assert files.read(NAME, position, 1) == b"content"[position : position + 1]

    assert [method for method, _ in s3.requests()[before:]] == ["HEAD", *["GET"] * 7]


def test_a_forked_child_uses_nothing_of_its_parents_client(s3: S3Server, files: FileStore) -> None:
    """Their connections are one, and what they send would mix: so the child asks for what its parent knows."""
    write(files, NAME)
    assert files.read(NAME, 0, 7) == b"content"
    before = len(s3.requests())

    wait_for([forked(lambda: files.read(NAME, 0, 7))])

    assert [method for method, _ in s3.requests()[before:]] == ["HEAD", "GET"]


# Refusals of the store -----------------------------------------------------------------------------------------------


def test_an_upload_that_is_cut_in_the_middle_is_an_error_and_leaves_no_object(s3: S3Server) -> None:
    with cutter(s3) as cutting:
        url = s3.url(port=cutting.port)
        files = file_store(url)
        output = files.create(NAME)
        output.write(LARGE)
        cutting.request_bytes = len(LARGE) // 2
        with pytest.raises(FileWriteError, match="write the data again") as caught:
            output.finish()
        cutting.request_bytes = None

        assert caught.value.fields["file"] == NAME
        assert "NETWORK_CONNECTION" in caught.value.fields["reason"]
        assert named(files) == []
        output.discard()
        write(files, NAME)


def test_an_upload_survives_a_connection_that_is_cut_once(s3: S3Server) -> None:
    with cutter(s3) as cutting:
        files = file_store(s3.url(port=cutting.port))
        output = files.create(NAME)
        output.write(LARGE)
        cutting.cuts_left = 1
        cutting.request_bytes = len(LARGE) // 2
        output.finish()

        assert files.read(NAME, 0, len(LARGE)) == LARGE


def test_an_answer_that_is_always_cut_short_is_an_error_and_never_less_data(s3: S3Server) -> None:
    with cutter(s3) as cutting:
        files = file_store(s3.url(port=cutting.port))
        write(files, NAME, LARGE)
        assert files.read(NAME, 0, 1) == LARGE[:1]
        cutting.answer_bytes = 100_000
        with pytest.raises(FileUnavailableError, match="try again") as caught:
            files.read(NAME, 0, 1_000_000)
        cutting.answer_bytes = None

        assert caught.value.fields["file"] == NAME
        assert files.read(NAME, 0, 1_000_000) == LARGE[:1_000_000]


def test_a_read_survives_an_answer_that_is_cut_short_once(s3: S3Server) -> None:
    with cutter(s3) as cutting:
        files = file_store(s3.url(port=cutting.port))
        write(files, NAME, LARGE)
        cutting.cuts_left = 1
        cutting.answer_bytes = 100_000

        assert files.read(NAME, 0, 1_000_000) == LARGE[:1_000_000]


def test_a_store_without_access_is_an_error_that_says_so_and_tells_no_secret(tmp_path: Path) -> None:
    with running_server(tmp_path, has_access_control=True) as server:
        files = file_store(server.url())
        with pytest.raises(FileWriteError, match="INVALID_ACCESS_KEY_ID") as refused:
            write(files, NAME)
        errors: list[OncelogError] = [refused.value]
        for use in uses(files):
            with pytest.raises(FileUnavailableError, match=r"ACCESS_DENIED|INVALID_ACCESS_KEY_ID") as denied:
                use()
            errors.append(denied.value)

        assert [str(error) for error in errors if SECRET in str(error)] == []


def test_a_certificate_that_the_url_names_is_trusted_and_no_other(tmp_path: Path) -> None:
    with running_server(tmp_path, has_tls=True) as server:
        files = file_store(server.url(tls_ca=server.certificate))
        write(files, NAME)
        assert files.read(NAME, 0, 7) == b"content"

        with pytest.raises(FileUnavailableError, match="certificate"):
            file_store(server.url()).read(NAME, 0, 7)


def test_a_store_that_is_away_is_a_retriable_error_and_goes_on_when_it_is_back(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        files = file_store(server.url(timeout_ms=1000))
        write(files, NAME)
        server.pause()
        with pytest.raises(FileUnavailableError, match="NETWORK_CONNECTION"):
            files.read(NAME, 0, 7)
        server.resume()
        assert files.read(NAME, 0, 7) == b"content"

        server.stop()
        output = files.create("data/b")
        output.write(b"content")
        with pytest.raises(FileWriteError, match="NETWORK_CONNECTION"):
            output.finish()
        with pytest.raises(FileUnavailableError, match="NETWORK_CONNECTION"):
            files.delete(NAME)


def test_a_missing_bucket_is_not_taken_for_lost_data(s3: S3Server) -> None:
    files = file_store(s3.url().replace(f"//{BUCKET}/", "//nobody/"))

    for use in uses(files)[:3]:
        with pytest.raises(FileUnavailableError, match="no such bucket"):
            use()
    with pytest.raises(FileWriteError, match="NO_SUCH_BUCKET"):
        write(files, NAME)


# Places --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("s3://bucket", ("bucket", None, None, 10_000, None)),
        ("s3://bucket/", ("bucket", None, None, 10_000, None)),
        ("s3://bucket/a/b/?region=eu-west-1", ("bucket/a/b", None, "eu-west-1", 10_000, None)),
        ("s3://bucket/a%20b?endpoint=http://h:1/", ("bucket/a b", "http://h:1", None, 10_000, None)),
        ("s3://bucket?timeout_ms=1500&tls_ca=/ca.pem", ("bucket", None, None, 1500, "/ca.pem")),
        ("s3://bucket?endpoint=https%3A%2F%2Fh", ("bucket", "https://h", None, 10_000, None)),
    ],
)
def test_a_url_names_a_bucket_a_folder_and_how_to_get_there(url: str, expected: tuple[object, ...]) -> None:
    place = ObjectPlace.parse(url)

    assert (place.folder, place.endpoint, place.region, place.timeout_ms, place.tls_ca) == expected
    assert place.bucket == "bucket"
    assert absolute(url) == url


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("s3://", "not the URL of a bucket"),
        ("s3:///folder", "not the URL of a bucket"),
        ("s3://bucket/a//b", "not the name of a file"),
        ("s3://bucket/../b", "not the name of a file"),
        ("s3://bucket/a#b", "must not have a fragment"),
        ("s3://bucket?regions=x", "unknown option .* did_you_mean='region'"),
        ("s3://bucket?region=a&region=b", "given twice"),
        ("s3://bucket?region=", "or empty"),
        ("s3://bucket?timeout_ms=0.5", "1000 or more"),
        ("s3://bucket?timeout_ms=999", "1000 or more"),
        ("s3://bucket?endpoint=host:9000", "a scheme and a host"),
        ("s3://bucket?endpoint=http://host/path", "a scheme and a host"),
    ],
)
def test_a_url_that_is_malformed_is_refused_with_its_reason(url: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        file_store(url)


@pytest.mark.parametrize(
    "url",
    [
        f"s3://key:{SECRET}@bucket/log",
        f"s3://bucket/log?access_key=key&secret_key={SECRET}",
        f"s3://bucket?aws_session_token={SECRET}",
        f"s3://bucket?endpoint=http://key:{SECRET}@host:9000",
    ],
)
def test_credentials_in_a_url_are_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(InvalidOptionError, match="AWS_ACCESS_KEY_ID") as caught:
        file_store(url)

    assert SECRET not in str(caught.value)


def test_a_pickled_store_holds_no_credentials(files: FileStore) -> None:
    write(files, NAME)

    assert isinstance(files, ObjectFileStore)
    assert SECRET.encode() not in pickle.dumps(files)
