"""Options of the sink: every wrong one is an error that names it and says why."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest
from click.testing import CliRunner

import oncelog_kafka
from oncelog.cli import main
from oncelog.errors import InvalidOptionError
from oncelog.spark.kit.options import Use
from oncelog_kafka.options import admin_settings
from oncelog_kafka.options import sink_options as options
from oncelog_kafka.options.admin_settings import JavaClient
from oncelog_kafka.options.sink_options import FORBIDDEN, OPTIONS, OnTimedOut, render_markdown_table
from tests.support.harness.marked_secrets import MARK, assert_hidden, given

LEAST: dict[str, Any] = {"kafka.bootstrap.servers": "a:1, b:2"}


def test_the_least_a_sink_needs_is_brokers() -> None:
    parsed = options.parse(LEAST)

    assert (parsed.znodes, parsed.topic, parsed.transactional_id_prefix) == (None, None, None)
    assert parsed.ledger_topic == "oncelog-ledger"
    assert parsed.on_timed_out is OnTimedOut.FAIL
    assert python_client(LEAST)["bootstrap_servers"] == ["a:1", "b:2"]


def test_what_is_required_is_asked_for_by_name() -> None:
    with pytest.raises(InvalidOptionError) as error:
        options.parse({})

    assert error.value.fields["option"] == "kafka.bootstrap.servers"


def test_the_ledger_has_one_place() -> None:
    assert options.parse({**LEAST, "znodes": "/ledger"}).znodes == "/ledger"
    assert options.parse({**LEAST, "ledgerTopic": "ours"}).ledger_topic == "ours"
    with pytest.raises(InvalidOptionError, match="exclude each other"):
        options.parse({**LEAST, "znodes": "/ledger", "ledgerTopic": "ours"})


def test_names_match_in_any_case() -> None:
    parsed = options.parse({**LEAST, "TOPIC": "t", "transactionalidprefix": "p", "KAFKA.Compression.Type": "lz4"})

    assert (parsed.topic, parsed.transactional_id_prefix) == ("t", "p")
    assert parsed.producer["compression.type"] == "lz4"


@pytest.mark.parametrize("name", FORBIDDEN)
def test_a_setting_that_is_not_the_users_is_refused_with_the_reason(name: str) -> None:
    with pytest.raises(InvalidOptionError) as error:
        options.parse({**LEAST, f"kafka.{name}": "x"})

    assert error.value.fields["option"] == f"kafka.{name}"
    assert error.value.fields["reason"] == FORBIDDEN[name]


@pytest.mark.parametrize(
    ("name", "value"), [("enable.idempotence", "false"), ("acks", "1"), ("acks", "0"), ("enable.idempotence", False)]
)
def test_what_would_break_the_guarantee_is_refused(name: str, value: object) -> None:
    with pytest.raises(InvalidOptionError, match="does not accept this value"):
        options.parse({**LEAST, f"kafka.{name}": value})


@pytest.mark.parametrize(("name", "value"), [("enable.idempotence", True), ("acks", "all"), ("acks", -1)])
def test_what_the_sink_does_anyway_may_be_said(name: str, value: object) -> None:
    parsed = options.parse({**LEAST, f"kafka.{name}": value})

    assert (parsed.producer["acks"], parsed.producer["enable.idempotence"]) == ("all", "true")


def test_a_prefix_and_a_sink_name_are_one_name_in_the_ledger() -> None:
    half = "p" * 512
    with pytest.raises(InvalidOptionError, match="too long together") as error:
        options.parse({**LEAST, "transactionalIdPrefix": half, "sinkName": half})

    assert error.value.fields["options"] == ["transactionalIdPrefix", "sinkName"]
    assert "too long" in error.value.fields["expected"]
    assert options.parse({**LEAST, "transactionalIdPrefix": half, "sinkName": half[:-1]}).sink_name == half[:-1]


@pytest.mark.parametrize("name", ["topic", "transactionalIdPrefix", "sinkName", "groupId", "kafka.client.id", "\ud83d"])
def test_an_unpaired_surrogate_is_refused_in_an_error_that_can_be_printed(name: str) -> None:
    with pytest.raises(InvalidOptionError, match="an unpaired surrogate") as error:
        options.parse({**LEAST, name: "name\udce9"})

    str(error.value).encode()


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("topic", " ", "not empty"),
        ("transactionalIdPrefix", "copier-1", "does not end in"),
        ("sinkName", "b-2", "does not end in"),
        ("transactionalIdPrefix", "p" * 1025, "too long"),
        ("sinkName", "ü" * 171, "too long"),
        ("groupId", "g" * 32_768, "at most 32767 bytes"),
        ("kafka.bootstrap.servers", " , ", "host:9092"),
        ("kafka.bootstrap.servers", "localhost", "host:9092"),
        ("admin.request_timeout_ms", "soon", "a whole number"),
        ("admin.ssl_check_hostname", "no", "true or false"),
        ("topic", "ü" * 16_384, "at most 32767 bytes"),
        ("transactionTimeoutMs", "0", "above 0"),
        ("transactionTimeoutMs", "soon", "above 0"),
        ("participants", -1, "above 0"),
        ("onTimedOutParticipant", "ignore", "fail, rewrite"),
    ],
)
def test_a_malformed_value_is_answered_with_what_is_expected(name: str, value: object, expected: str) -> None:
    with pytest.raises(InvalidOptionError) as error:
        options.parse({**LEAST, name: value})

    assert error.value.fields["option"] == name
    assert expected in error.value.fields["expected"]


def test_an_unknown_option_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(InvalidOptionError) as error:
        oncelog_kafka.sink(**LEAST, transactional_id_prefix="p")

    assert error.value.fields["did_you_mean"] == "transactionalIdPrefix"


def test_an_option_that_is_given_twice_is_refused() -> None:
    with pytest.raises(InvalidOptionError, match="twice"):
        options.parse({**LEAST, "topic": "a", "Topic": "b"})


@pytest.mark.parametrize("name", ["groupId", "takeover"])
def test_what_outlives_a_query_needs_a_prefix_that_does(name: str) -> None:
    with pytest.raises(InvalidOptionError, match="needs a transactionalIdPrefix"):
        options.parse({**LEAST, name: "g"})


def test_measured_defaults_give_way_to_the_users_values() -> None:
    assert options.parse(LEAST).producer["linger.ms"] == "50"
    assert options.parse({**LEAST, "kafka.linger.ms": 5}).producer["linger.ms"] == "5"


@pytest.mark.parametrize(
    ("given", "partitions", "size"),
    [
        ({}, None, 262_144),
        ({}, 4, 262_144),
        ({}, 100, 83_886),
        ({}, 10_000, 16_384),
        ({"kafka.buffer.memory": 2**26}, 100, 167_772),
        ({"kafka.buffer.memory": "much"}, 100, 83_886),
        ({"kafka.batch.size": 1_000}, 100, 1_000),
    ],
)
def test_batches_for_all_partitions_fit_into_the_buffer_four_times(
    given: dict[str, object], partitions: int | None, size: int
) -> None:
    producer = options.with_batch_size(options.parse({**LEAST, **given}).producer, partitions)

    assert producer["batch.size"] == str(size)


def test_the_drivers_client_takes_over_credentials() -> None:
    jaas = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="a b" password="x\\"y";'

    admin = python_client(
        {
            **LEAST,
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "SCRAM-SHA-512",
            "kafka.sasl.jaas.config": jaas,
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": "/ca.pem",
            "admin.request_timeout_ms": 5000,
        }
    )

    assert admin["security_protocol"] == "SASL_SSL"
    assert admin["sasl_mechanism"] == "SCRAM-SHA-512"
    assert (admin["sasl_plain_username"], admin["sasl_plain_password"]) == ("a b", 'x"y')
    assert admin["ssl_cafile"] == "/ca.pem"
    assert admin["request_timeout_ms"] == 5000


@pytest.mark.parametrize(
    ("login", "password"),
    [
        ("username='a' password='1\\'\"2'", "1'\"2"),
        ("username=a password=1-2", "1-2"),
        ('username = "a" password = "1\'2"', "1'2"),
    ],
)
def test_a_login_is_read_in_every_form_that_java_reads(login: str, password: str) -> None:
    jaas = f"org.apache.kafka.common.security.plain.PlainLoginModule required {login};"

    admin = python_client({**LEAST, "kafka.sasl.mechanism": "PLAIN", "kafka.sasl.jaas.config": jaas})

    assert (admin["sasl_plain_username"], admin["sasl_plain_password"]) == ("a", password)


def test_a_login_without_a_user_is_refused_and_not_shown() -> None:
    given = {**LEAST, "kafka.sasl.mechanism": "PLAIN", "kafka.sasl.jaas.config": 'Module required password="secret";'}

    with pytest.raises(InvalidOptionError, match="finds no username and password") as error:
        options.parse(given)
    assert "secret" not in str(error.value)
    assert python_client({**given, "admin.sasl_plain_username": "u"})["sasl_plain_password"] == "secret"


def test_the_drivers_client_tells_numbers_from_texts_by_their_names() -> None:
    admin = python_client(
        {
            **LEAST,
            "admin.sasl_plain_password": "0012",
            "admin.ssl_password": "true",
            "admin.request_timeout_ms": " 5000 ",
            "admin.ssl_check_hostname": "False",
            "kafka.security.protocol": "ssl",
        }
    )

    assert (admin["sasl_plain_password"], admin["ssl_password"]) == ("0012", "true")
    assert (admin["request_timeout_ms"], admin["ssl_check_hostname"]) == (5000, False)
    assert admin["security_protocol"] == "SSL"


def test_credentials_never_show_in_a_representation() -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="secret";'

    assert "secret" not in repr(options.parse({**LEAST, "kafka.sasl.jaas.config": jaas}))


def test_a_sink_is_shown_with_the_texts_of_its_options() -> None:
    shown = repr(oncelog_kafka.sink(**LEAST, onTimedOutParticipant="rewrite", participants=4))

    assert shown.startswith("KafkaSink(SinkOptions(topic=")
    assert "on_timed_out='rewrite', participants=4" in shown
    assert "<" not in shown


def test_the_table_of_the_docs_names_every_option() -> None:
    table = render_markdown_table()

    assert all(f"`{option.name}`" in table for option in OPTIONS)
    assert all(f"`kafka.{name}`" in table for name in FORBIDDEN)


def python_client(given: Mapping[str, object]) -> Mapping[str, Any]:
    """The settings of kafka-python; fails if the driver's client is another one."""
    admin = options.parse(given).admin
    assert not isinstance(admin, JavaClient)
    return admin


PEM = {"ssl.truststore.type": "PEM", "ssl.truststore.location": "/ca.pem"}
KEY_STORE = {"ssl.keystore.location": "/k.jks", "ssl.keystore.password": "secret"}


def sasl(mechanism: str = "PLAIN", jaas: str | None = None, protocol: str = "SASL_SSL", **more: str) -> dict[str, str]:
    """A login, by default one that kafka-python can do."""
    kind = mechanism.partition("-")[0].capitalize()
    module = f"org.apache.kafka.common.security.{kind.lower()}.{kind}LoginModule"
    login = f'{module} required username="u" password="secret";' if jaas is None else jaas
    return {
        "security.protocol": protocol,
        "sasl.mechanism": mechanism,
        **({"sasl.jaas.config": login} if login else {}),
        **{name.replace("_", "."): value for name, value in more.items()},
    }


@pytest.mark.parametrize(
    ("kafka", "admin", "expected"),
    [
        ({}, {}, False),
        ({}, {"client": "java"}, True),
        (KEY_STORE, {}, False),  # no TLS
        ({"security.protocol": "SSL"}, {}, False),
        ({"security.protocol": "SSL", **PEM, "ssl.endpoint.identification.algorithm": ""}, {}, False),
        ({"security.protocol": "ssl", **KEY_STORE}, {}, True),
        ({"security.protocol": "SSL", **PEM, **KEY_STORE}, {}, True),
        ({"security.protocol": "SSL", **PEM, **KEY_STORE}, {"ssl_certfile": "/c.pem"}, False),
        ({"security.protocol": "SSL", **KEY_STORE}, {"client": "python"}, False),
        ({"security.protocol": "SSL", **KEY_STORE}, {"bootstrap_timeout_ms": "1", "jars": "/t.jar"}, True),
        ({"security.protocol": "SSL", "ssl.truststore.location": "/t.jks"}, {}, True),
        ({"security.protocol": "SASL_PLAINTEXT"}, {}, True),  # Java's default is GSSAPI
        (sasl(), {}, False),
        (sasl("SCRAM-SHA-256"), {}, False),
        (sasl("SCRAM-SHA-256", protocol="SASL_PLAINTEXT", **KEY_STORE), {}, False),
        (sasl("SCRAM-SHA-256", **KEY_STORE), {}, True),
        (sasl("OAUTHBEARER"), {}, True),
        (sasl("AWS_MSK_IAM"), {}, True),
        (sasl(sasl_login_callback_handler_class="x.Y"), {}, True),
        (sasl(sasl_login_refresh_window_jitter="0.1"), {}, True),
        (sasl(jaas=""), {}, True),  # a JAAS file of the JVM may have one
        (sasl(jaas=""), {"sasl_plain_username": "u", "sasl_plain_password": "secret"}, False),
        (sasl(jaas="com.example.Vault required path='secret';"), {}, True),
        (sasl(jaas="org.apache.kafka.common.security.plain.PlainLoginModule required username='u';"), {}, True),
        (sasl(jaas="com.example.Other required username='u' password='secret';"), {}, True),
        (sasl(config_providers="env", config_providers_env_class="x.Y"), {}, True),
        ({"config.providers": "env"}, {}, True),
        ({"client.dns.lookup": "resolve_canonical_bootstrap_servers_only"}, {}, True),
        ({"security.providers": "x.Y"}, {}, True),
        ({"a.setting.of.tomorrow": "1"}, {}, True),
        ({"linger.ms": "5", "compression.type": "zstd", "max.poll.records": "7", "client.id": "me"}, {}, False),
        ({"partitioner.rack.aware": "true", "client.rack": "a"}, {}, False),
        ({"bootstrap.resolve.timeout.ms": "5000"}, {}, True),
    ],
)
def test_the_driver_takes_javas_client_where_kafka_python_cannot_do_it(
    kafka: dict[str, str], admin: dict[str, str], expected: bool
) -> None:
    assert admin_settings.needs_java(kafka, admin) is expected
    derived = admin_settings.derive({"bootstrap.servers": "a:1", **kafka}, admin)
    assert isinstance(derived, JavaClient) is expected
    assert "secret" not in repr(derived) or not expected


def test_a_delegation_token_is_no_login() -> None:
    for form in ("tokenauth=true", "tokenauth = 'true'", 'TokenAuth="true"'):
        jaas = f'Module required username="id" password="secret" {form};'
        with pytest.raises(InvalidOptionError, match="delegation tokens are not supported") as error:
            options.parse({**LEAST, "kafka.sasl.mechanism": "SCRAM-SHA-512", "kafka.sasl.jaas.config": jaas})
        assert "secret" not in str(error.value)


SECRET = ("kafka.sasl.jaas.config", "kafka.ssl.key.password", "kafka.ssl.keystore.key", "admin.sasl_plain_password")


def test_no_option_shows_a_secret(caplog: pytest.LogCaptureFixture) -> None:
    logins = [LEAST, {**LEAST, **sasl()}, {**LEAST, **sasl(jaas=""), "admin.client": "python"}]
    for least in logins:
        calls = [(one, partial(oncelog_kafka.sink, **one)) for one in given(OPTIONS, least, *SECRET)]
        assert_hidden(calls, caplog)


@pytest.mark.parametrize(
    "name", ["sasl.jaas.config", "ssl.key.password", "admin.sasl_plain_password", "wrong.password"]
)
def test_no_command_prints_a_secret(name: str) -> None:
    places = ["user:" + MARK + "@host:9092", "host:9092,user:" + MARK + "@host:9092"]
    for words in (
        ["--brokers", "127.0.0.1:1", f"--config={name}:{MARK}", "txn", "list"],
        ["--brokers", "127.0.0.1", f"--config={name}={MARK}", "txn", "list"],
        *(["--brokers", place, f"--config={name}={MARK}", "txn", "list"] for place in places),
    ):
        done = CliRunner().invoke(main, ["kafka", *words])
        assert done.exit_code != 0
        assert MARK not in f"{done.output}{done.exception!r}", words


# Spark's own sink (KafkaSourceProvider of Spark 4.0 to 4.3) -----------------------------------------------------------


@pytest.mark.parametrize("use", [Use.FOREACH_BATCH, Use.STREAM_WRITE, Use.BATCH_WRITE])
@pytest.mark.parametrize(
    "option",
    [
        {"topic": "t"},
        {"includeHeaders": "true"},
        {"INCLUDEHEADERS": False},
        {"kafka.compression.type": "zstd"},
        {"kafka.any.setting": "x"},
    ],
    ids=str,
)
def test_an_option_of_sparks_sink_is_accepted(option: dict[str, Any], use: Use) -> None:
    options.parse({**LEAST, **option}, use)


@pytest.mark.parametrize("name", ["key.serializer", "value.serializer"])
def test_a_setting_that_sparks_sink_refuses_is_refused_with_a_reason(name: str) -> None:
    with pytest.raises(InvalidOptionError, match=r"the option cannot be set .*reason='\w+ are written as the bytes"):
        options.parse({**LEAST, f"kafka.{name}": "x"})


@pytest.mark.parametrize("servers", ["a:1,b:2,", " a:1 , b:2 ,, ", "a:1,b:2,a:1", "PLAINTEXT://a:1,b:2"])
def test_driver_and_tasks_read_the_brokers_alike(servers: str) -> None:
    parsed = options.parse({"kafka.bootstrap.servers": servers})

    assert python_client({"kafka.bootstrap.servers": servers})["bootstrap_servers"] == ["a:1", "b:2"]
    assert parsed.producer["bootstrap.servers"].removeprefix("PLAINTEXT://") == "a:1,b:2"


@pytest.mark.parametrize("servers", ["", " , ", "a", "a:1,b", "user:secret@a:1", "a:1/path", "a:x"])
def test_brokers_that_kafkas_client_cannot_read_are_refused(servers: str) -> None:
    with pytest.raises(InvalidOptionError, match=r"malformed .*expected='brokers as host:port") as error:
        options.parse({"kafka.bootstrap.servers": servers})
    assert "secret" not in str(error.value)
