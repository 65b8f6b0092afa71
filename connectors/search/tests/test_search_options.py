"""Options as users give them: every mistake has an error of its own, and no credentials are repeated."""

from __future__ import annotations

import pickle
from functools import partial
from typing import Any

import pytest

import oncelog_search
from oncelog.errors import InvalidOptionError
from oncelog_search.address import Address
from oncelog_search.batch_sink import SearchSink
from oncelog_search.errors import SearchAccessError
from oncelog_search.options import OPTIONS
from oncelog_search.server import SearchServer
from tests.support.harness.marked_secrets import assert_hidden, given

GIVEN = {"url": "https://search:9200", "index": "flights", "staging": "/staging"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"url": None}, "a required option is missing.*option='url'"),
        ({"index": None}, "a required option is missing.*option='index'"),
        ({"staging": None}, "a required option is missing.*option='staging'"),
        ({"url": "search:9200"}, "malformed.*option='url'.*http://host:port or https://host:port"),
        ({"url": "https://search:0"}, "malformed.*option='url'"),
        ({"url": "https://search:9200,"}, "malformed.*option='url', value=''"),
        ({"url": "https://search:9200/?pretty"}, "malformed.*option='url'"),
        ({"url": "http://search:9200", "caFile": "/ca.pem"}, "for urls that begin with https://.*option='caFile'"),
        ({"index": "Flights"}, "malformed.*option='index'.*the name of one index"),
        ({"index": "flights-*"}, "malformed.*option='index'"),
        ({"index": "a,b"}, "malformed.*option='index'"),
        ({"index": "_all"}, "malformed.*option='index'"),
        ({"index": "ü" * 128}, "malformed.*option='index'"),
        ({"staging": "s3a://key:hunter2@bucket/staging"}, "must not contain credentials.*option='staging'"),
        ({"mode": "overwrite"}, "malformed.*option='mode'.*one of append, upsert"),
        ({"mode": "upsert"}, "mode=upsert needs the columns that make the _id"),
        ({"keyColumns": "id"}, "for mode=upsert.*option='keyColumns'.*mode='append'"),
        ({"mode": "upsert", "keyColumns": "id,"}, "names of columns, separated by commas"),
        ({"requestBytes": 0}, "malformed.*option='requestBytes'.*above 0"),
        ({"key_columns": "id"}, "unknown option.*did_you_mean='keyColumns'"),
        ({"takeover": "id"}, "needs a transactionalIdPrefix"),
    ],
)
def test_options_that_are_wrong_are_named(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidOptionError, match=said) as refused:
        oncelog_search.sink(**{**GIVEN, **options})

    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("url", ["https://user:hunter2@search:9200", "https://a:9200,https://hunter2@b:9200"])
def test_credentials_in_the_url_are_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(InvalidOptionError, match="by ONCELOG_SEARCH_USER and ONCELOG_SEARCH_PASSWORD") as refused:
        oncelog_search.sink(**{**GIVEN, "url": url})

    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "variables",
    [
        {"ONCELOG_SEARCH_USER": "copier"},
        {"ONCELOG_SEARCH_PASSWORD": "hunter2"},
        {"ONCELOG_SEARCH_USER": "copier", "ONCELOG_SEARCH_PASSWORD": "hunter2", "ONCELOG_SEARCH_API_KEY": "hunter3"},
    ],
)
def test_credentials_that_contradict_each_other_are_refused(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    with pytest.raises(SearchAccessError, match="a user and a password, or an API key, or nothing") as refused:
        SearchServer(Address.parse("http://127.0.0.1:1", None, 100)).get("/")

    assert refused.value.fields == {"found": list(variables)}


def test_a_file_of_certificates_that_is_missing_is_named() -> None:
    with pytest.raises(SearchAccessError, match=r"this host lacks the file .*caFile='/none.pem'"):
        SearchServer(Address.parse("https://127.0.0.1:1", "/none.pem", 100))


def test_a_sink_can_be_pickled_and_shows_its_options() -> None:
    sink = oncelog_search.sink(
        **{**GIVEN, "url": "https://a:9200/, https://b:9200/search"}, mode="UPSERT", keyColumns="a, b", refresh=True
    )
    revived: SearchSink = pickle.loads(pickle.dumps(sink))

    assert revived.options == sink.options
    assert sink.options.address.urls == ("https://a:9200", "https://b:9200/search")
    assert (sink.options.key_columns, sink.options.refreshes, sink.options.request_bytes) == (
        ("a", "b"),
        True,
        5_000_000,
    )
    assert "key_columns=('a', 'b')" in repr(sink)


def test_no_option_shows_a_secret(caplog: pytest.LogCaptureFixture) -> None:
    sinks = given(OPTIONS, GIVEN)

    assert_hidden(((one, partial(oncelog_search.sink, **one)) for one in sinks), caplog)
