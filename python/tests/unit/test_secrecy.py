"""No secret is in a text that people see, whatever form the user gave it in."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given as for_all
from hypothesis import strategies as st

import oncelog
from oncelog.cli import main
from oncelog.errors import InvalidOptionError, OncelogError, Shown, UsageError
from oncelog.secrecy import HIDDEN, hidden, in_fields, is_secret
from oncelog.spark import option_table, sink, together
from oncelog.spark.kit.options import Use
from oncelog.spark.options import parse_sink_options, parse_source_options
from tests.support import strategies
from tests.support.harness.marked_secrets import MARK, PLACES, SECRETS, assert_hidden, forms, given

SECRET_NAMES = (
    "kafka.sasl.jaas.config", "kafka.ssl.key.password", "kafka.ssl.keystore.key", "admin.sasl_plain_password",
    "storage.aws_secret_access_key", "storage.AZURE_STORAGE_ACCOUNT_KEY", "catalog.token", "storage.aws_session_token",
    "catalog.s3.secret-access-key", "catalog.credential", "kafka.sasl.oauthbearer.client.credentials.client.secret",
)  # fmt: skip

PUBLIC_NAMES = (
    "path", "znodes", "topic", "keyColumns", "transactionalIdPrefix", "kafka.ssl.keystore.location", "takeover",
    "kafka.sasl.login.callback.handler.class", "kafka.sasl.oauthbearer.token.endpoint.url", "credentials_file",
)  # fmt: skip


def test_names_say_which_values_are_secret() -> None:
    assert [name for name in SECRET_NAMES if not is_secret(name)] == []
    assert [name for name in PUBLIC_NAMES if is_secret(name)] == []


@pytest.mark.parametrize("text", PLACES)
def test_a_place_is_shown_without_its_secret(text: str) -> None:
    for around in ("{}", "at {}, it failed", "'{}'", "[{}]", "path={}", "({})"):
        found = hidden(around.format(text))
        assert MARK not in found
        assert HIDDEN in found
        assert "host" in found or "bucket" in found


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://user@host:5432/database?schema=oncelog",
        "s3://bucket/folder?endpoint=https://host:9000",
        "zk://host:2181,other:2181/chroot?auth=digest&credentials_file=/a/file",
        'write them as username="..." password="...", or set admin.sasl_plain_password',
        "the transaction 7:12 of writer-3 at 2024-01-01T12:30:00",
        '{"topic":{"0":23,"1":-2},"@absent":{"gone":{"0":5}}}',
        "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or a role of the machine",
    ],
)
def test_a_text_without_a_secret_stays_as_it_is(text: str) -> None:
    assert hidden(text) == text


@for_all(name=st.sampled_from(SECRET_NAMES), quote=st.sampled_from(["", "'", '"']), sign=st.sampled_from(["=", ": "]))
def test_the_value_of_a_secret_setting_is_hidden(name: str, quote: str, sign: str) -> None:
    shown = hidden(f"before {quote}{name}{quote}{sign}{quote}{MARK}{quote}, after=1")

    assert MARK not in shown
    assert name in shown


@for_all(text=strategies.any_texts(100))
def test_hiding_twice_changes_nothing_more(text: str) -> None:
    assert hidden(hidden(text)) == hidden(text)


@pytest.mark.parametrize(
    "part", ["x", ":", "a:", "secret", "password=", "jaas", "a:b@", "'", "-----BEGIN PRIVATE KEY-----"]
)
def test_a_long_text_is_searched_in_linear_time(part: str) -> None:
    """A quadratic search of a long text would not end."""
    assert isinstance(hidden(part * (200_000 // len(part))), str)


@pytest.mark.parametrize("name", ["option", "url", "password", "given"])
@pytest.mark.parametrize("text", [*PLACES, *SECRETS[1:]])
def test_an_error_shows_no_secret_in_any_of_its_fields(name: str, text: str) -> None:
    for value in forms(text):
        error = UsageError(f"it failed at {text}", **{name: value})
        again: OncelogError = pickle.loads(pickle.dumps(error))
        for one in (error, again):
            assert MARK not in f"{one} {one!r} {one.message} {one.fields} {one.args}"


def test_fields_without_secrets_keep_their_types() -> None:
    fields = {"option": "path", "value": 7, "topics": ["a", "b"], "shown": Shown("a=1"), "nothing": None, "use": Use}

    assert in_fields(fields) == fields
    assert str(InvalidOptionError("no", shown=Shown("a=1"))) == "no [shown=a=1]"


LEAST = {"path": "/no/such/log", "topic": "t", "subscribe": "t"}


def test_the_options_of_the_log_are_shown_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
    def parse(options: dict[str, object], use: Use) -> Any:
        return (parse_source_options if use in {Use.BATCH_READ, Use.STREAM_READ} else parse_sink_options)(options, use)

    all_given = list(given(option_table.OPTIONS, {}, "kafka.ssl.key.password", "kafka.sasl.jaas.config"))
    for use, least in ((Use.FOREACH_BATCH, ("path", "topic")), (Use.BATCH_READ, ("path", "subscribe"))):
        base = {name: LEAST[name] for name in least}
        assert_hidden(((one, partial(_refused, parse, {**base, **one}, use)) for one in all_given), caplog)
    assert_hidden(((one, partial(sink, **{"path": "/a", "topic": "t", **one})) for one in all_given), caplog)
    assert_hidden(((one, partial(_both, {"path": "/a", "topic": "t", **one})) for one in all_given), caplog)


def _both(options: dict[str, Any]) -> object:
    return together(sink(**options))


def _refused(parse: Callable[..., Any], options: dict[str, object], use: Use) -> str | None:
    """Only errors count: parsed options are for the program."""
    parse(options, use)
    return None


def test_a_log_is_not_opened_with_a_secret_in_its_place(caplog: pytest.LogCaptureFixture) -> None:
    places: list[Any] = [value for text in PLACES if "://" in text for value in forms(text)]
    opened = [(place, partial(oncelog.open, place, create=False)) for place in places]
    ledgers = [(place, partial(oncelog.open, "/no/such/log", znodes=place, create=False)) for place in places]

    assert_hidden([*opened, *ledgers], caplog)


@pytest.mark.parametrize("text", [text for text in PLACES if "://" in text])
def test_commands_print_no_secret(text: str) -> None:
    for words in (
        ["--path", text, "topic", "list"],
        ["--path", "/no/such/log", "--znodes", text, "topic", "list"],
        ["--znodes", text, "batch", "list"],
        ["checkpoint", "show", text],
        ["meta", "adopt-host", "--znodes", text],
        ["--path", text, "doctor"],
        ["--path", "/no/such/log", "--znodes", text, "doctor"],
    ):
        done = CliRunner().invoke(main, words)
        assert done.exit_code != 0
        assert MARK not in done.output, words
        assert MARK not in repr(done.exception), words
