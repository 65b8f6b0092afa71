"""Whatever `kafka.*` options let the tasks in let the driver in too: stores, logins, tokens, on a real broker."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from pyspark.sql import SparkSession

from kerberos import Realm, has_kdc
from killed_queries import World
from oncelog import metadata
from oncelog.batches.attempt import Batch
from oncelog.batches.rules import BatchRequest
from oncelog.batches.run import BatchDriver
from oncelog.cli import main
from oncelog.errors import InvalidOptionError
from oncelog.testing import maven
from oncelog.testing.kafka_broker import TV2_VERSION, KafkaBroker, broker_jars
from oncelog.testing.server_process import free_ports
from oncelog_kafka.brokers import Brokers
from oncelog_kafka.errors import BrokerAccessError
from oncelog_kafka.ledger.ledger import KAFKA_LEDGERS
from oncelog_kafka.options import admin_settings, sink_options
from oncelog_kafka.protocol.participants import Participant
from oncelog_kafka.sinks.data_plane import SparkJob
from oncelog_kafka.sinks.target import KafkaTarget
from tests.support.connectors.kafka_sink import options, rows, values
from tests.support.harness.waiting import until
from tests.support.servers.kafka import fresh_name, require_broker, require_shims
from token_issuer import AUDIENCE, CLIENT, NAME, SECRET, TokenIssuer

pytestmark = pytest.mark.sampled("logins")

HERE = Path(__file__).parent
KAFKA = "org.apache.kafka.common.security"
PLAIN = f"{KAFKA}.plain.PlainLoginModule required"
SCRAM = f"{KAFKA}.scram.ScramLoginModule required"
OAUTH = f"{KAFKA}.oauthbearer.OAuthBearerLoginModule required"
USER, PASSWORD = "alice", "hidden-of-alice"
STORE = "hidden-of-the-store"

Login = dict[str, str]


class Stores:
    """Key stores of a broker and a client, each with a trust store that knows the other; keytool makes them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name in ("broker", USER):
            self._keytool("-genkeypair", "-alias", name, "-keyalg", "RSA", "-dname", f"CN={name}", "-validity", "2",
                          "-ext", "san=ip:127.0.0.1", store=f"{name}.keys.jks")  # fmt: skip
            self._keytool("-exportcert", "-rfc", "-alias", name, "-file", str(folder / f"{name}.pem"),
                          store=f"{name}.keys.jks")  # fmt: skip
        for name, other in (("broker", USER), (USER, "broker")):
            self._keytool("-importcert", "-noprompt", "-alias", other, "-file", str(folder / f"{other}.pem"),
                          store=f"{name}.trust.jks")  # fmt: skip
        for kind in ("keys", "trust"):
            to = ["-destkeystore", self.path(f"{USER}.{kind}.p12"), "-deststoretype", "PKCS12", "-deststorepass", STORE]
            source = ["-srckeystore", self.path(f"{USER}.{kind}.jks"), "-srcstorepass", STORE]
            subprocess.run(["keytool", "-importkeystore", *source, *to], check=True, capture_output=True)

    def path(self, name: str) -> str:
        return str(self._folder / name)

    def of(self, name: str, kind: str = "jks", password: str = STORE) -> Login:
        """The settings of one side."""
        store_type = "PKCS12" if kind == "p12" else "JKS"
        return {
            "ssl.keystore.type": store_type,
            "ssl.keystore.location": self.path(f"{name}.keys.{kind}"),
            "ssl.keystore.password": password,
            "ssl.key.password": password,
            "ssl.truststore.type": store_type,
            "ssl.truststore.location": self.path(f"{name}.trust.{kind}"),
            "ssl.truststore.password": password,
        }

    def _keytool(self, *words: str, store: str) -> None:
        where = ["-keystore", self.path(store), "-storetype", "JKS", "-storepass", STORE, "-keypass", STORE]
        subprocess.run(["keytool", *words, *where], check=True, capture_output=True)


class Entrances:
    """A broker with a listener for each way in."""

    def __init__(self, folder: Path, stores: Stores, issuer: TokenIssuer) -> None:
        self.stores = stores
        self.issuer = issuer
        client, controller, tls, sasl = free_ports(4)
        self._tls, self._sasl = f"127.0.0.1:{tls}", f"127.0.0.1:{sasl}"
        doors = f"PLAINTEXT://127.0.0.1:{client},TLS://{self._tls},SASL://{self._sasl}"
        oauth = "listener.name.sasl.oauthbearer."
        settings = {
            "listeners": f"{doors},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": doors,
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,TLS:SSL,SASL:SASL_PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
            "listener.name.sasl.plain.sasl.jaas.config": f'{PLAIN} user_{USER}="{PASSWORD}";',
            "listener.name.sasl.scram-sha-512.sasl.jaas.config": f"{SCRAM};",
            f"{oauth}sasl.jaas.config": f"{OAUTH};",
            f"{oauth}sasl.server.callback.handler.class": f"{KAFKA}.oauthbearer.OAuthBearerValidatorCallbackHandler",
            f"{oauth}sasl.oauthbearer.jwks.endpoint.url": issuer.keys_url,
            f"{oauth}sasl.oauthbearer.expected.audience": AUDIENCE,
            f"{oauth}sasl.oauthbearer.expected.issuer": NAME,
            f"{oauth}sasl.oauthbearer.clock.skew.seconds": "0",
            f"{oauth}connections.max.reauth.ms": "600000",
            "listener.name.tls.ssl.client.auth": "required",
            **{f"listener.name.tls.{name}": value for name, value in stores.of("broker").items()},
        }
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={issuer.keys_url}"
        self.broker = KafkaBroker(folder, version=TV2_VERSION, settings=settings, port=client, java=[allowed])

    def add_user(self) -> None:
        scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        admin = AdminClient({"bootstrap.servers": self.broker.address})
        for done in admin.alter_user_scram_credentials(
            [UserScramCredentialUpsertion(USER, scram, PASSWORD.encode())]
        ).values():
            done.result(30)

    def stores_of(self, kind: str, password: str = STORE) -> Login:
        return self._options(self._tls, {"security.protocol": "SSL", **self.stores.of(USER, kind, password)})

    def pem(self) -> Login:
        """The texts themselves, without a file."""
        key = subprocess.run(
            ["openssl", "pkcs12", "-in", self.stores.path(f"{USER}.keys.p12"), "-passin", f"pass:{STORE}", "-nodes",
             "-nocerts"], check=True, capture_output=True, text=True)  # fmt: skip
        settings = {
            "security.protocol": "SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": key.stdout[key.stdout.index("-----BEGIN") :],
            "ssl.keystore.certificate.chain": Path(self.stores.path(f"{USER}.pem")).read_text(),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": Path(self.stores.path("broker.pem")).read_text(),
        }
        return self._options(self._tls, settings)

    def user(self, mechanism: str, password: str = PASSWORD, more: str = "") -> Login:
        module = PLAIN if mechanism == "PLAIN" else SCRAM
        return self._login(mechanism, f'{module} username="{USER}" password="{password}"{more};')

    def tokens(self, secret: str = SECRET) -> Login:
        return {
            **self._login("OAUTHBEARER", f'{OAUTH} clientId="{CLIENT}" clientSecret="{secret}";'),
            "kafka.sasl.login.callback.handler.class": f"{KAFKA}.oauthbearer.OAuthBearerLoginCallbackHandler",
            "kafka.sasl.oauthbearer.token.endpoint.url": self.issuer.token_url,
            "kafka.sasl.login.retry.backoff.max.ms": "500",
        }

    def tokens_of_a_class(self, file: Path, jar: Path) -> Login:
        return {
            **self._login("OAUTHBEARER", f'{OAUTH} file="{file}";'),
            "kafka.sasl.login.callback.handler.class": "com.example.Tokens",
            "admin.jars": str(jar),
        }

    def aws(self, jars: Path) -> Login:
        login = self._login("AWS_MSK_IAM", "software.amazon.msk.auth.iam.IAMLoginModule required;")
        handler = {"kafka.sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler"}
        return {**login, **handler, "admin.jars": ",".join(map(str, jars.glob("*.jar")))}

    def _login(self, mechanism: str, jaas: str) -> Login:
        settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, "sasl.jaas.config": jaas}
        return self._options(self._sasl, settings)

    def _options(self, address: str, settings: Login) -> Login:
        return {f"kafka.{name}": value for name, value in {"bootstrap.servers": address, **settings}.items()}


@pytest.fixture(scope="module")
def entrances(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Entrances]:
    require_broker()
    require_shims()
    with TokenIssuer().serving() as issuer:
        found = Entrances(tmp_path_factory.mktemp("entrances"), Stores(tmp_path_factory.mktemp("stores")), issuer)
        try:
            found.broker.start()
            found.broker.wait_until_serving()
            found.add_user()
            yield found
        finally:
            found.broker.stop()


BATCHES = (["a", "b"], ["c", "d"])


class Sink:
    """Writes micro-batches and asks the driver's commands, as the login that it is given."""

    def __init__(self, spark: SparkSession, broker: KafkaBroker, folder: Path) -> None:
        self.spark = spark
        self.broker = broker
        self._folder = folder
        self.topic = broker.create_topic(fresh_name("login"))
        self.prefix = f"{self.topic}.p"

    def _options(self, login: Login) -> dict[str, Any]:
        return {**options(self.broker, self._folder, self.topic, transactionalIdPrefix=self.prefix), **login}

    def write(self, login: Login) -> list[tuple[Participant, ...]]:
        """Two batches of a run; returns the participants of each."""
        parsed = sink_options.parse(self._options(login))
        store = metadata.open_metadata(str(self._folder / "ledger"))
        with closing(store), closing(Brokers(parsed.admin)) as brokers:
            target = KafkaTarget(store, brokers, parsed)
            for number, texts in enumerate(BATCHES):
                request = BatchRequest(self.prefix, "query", "sink", "run", number, f"fp-{number}")
                BatchDriver(target).run(Batch(request, SparkJob(rows(self.spark, texts))))
            rounds = KAFKA_LEDGERS.read_rounds(store, self.prefix)
        return [found.participants for _, found in sorted(rounds.items())]

    def read(self, login: Login) -> list[str]:
        """What the source reads of the topic."""
        source = self.spark.read.format("oncelog-kafka").options(**login, subscribe=self.topic).load()
        return sorted(bytes(row.value).decode() for row in source.collect())

    def assert_is_exact(self, login: Login) -> None:
        """Batches are written by each door, and the commands find their transactions."""
        self.assert_commands_find(login)
        by_name = self.spark.createDataFrame([("e",)], "value string").write.format("oncelog-kafka")
        by_name.options(**self._options(login)).save()
        assert values(self.broker, self.topic) == ["a", "b", "c", "d", "e"]

    def assert_commands_find(self, login: Login) -> None:
        """Batches are written, the second by the producers of the first, and the commands find their transactions."""
        first, second = self.write(login)
        kept = [one.producer._replace(epoch=one.epoch + 1) for one in first]  # another one raises it once more
        assert [one.producer for one in second] == kept
        assert values(self.broker, self.topic) == ["a", "b", "c", "d"]
        settings = [f"--config={name}={value}" for name, value in login.items() if "bootstrap" not in name]
        words = ["kafka", "--brokers", login["kafka.bootstrap.servers"], *settings, "txn", "list", "--json"]
        done = CliRunner().invoke(main, [*words, "--prefix", self.prefix])
        assert done.exit_code == 0, done.output
        found = json.loads(done.stdout)["transactions"]
        assert {one["state"] for one in found} == {"CompleteCommit"}


@pytest.fixture
def sink(spark: SparkSession, entrances: Entrances, tmp_path: Path) -> Sink:
    return Sink(spark, entrances.broker, tmp_path)


@pytest.mark.parametrize("kind", ["jks", "p12"])
def test_a_sink_with_javas_key_stores_is_let_in_by_its_certificate(sink: Sink, entrances: Entrances, kind: str) -> None:
    sink.assert_is_exact(entrances.stores_of(kind))


def test_a_sink_with_pem_texts_is_let_in_by_its_certificate(sink: Sink, entrances: Entrances) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl takes the key out of the store")
    sink.assert_is_exact(entrances.pem())


@pytest.mark.parametrize("client", ["python", "java"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_sink_with_a_password_is_let_in_by_either_client(
    sink: Sink, entrances: Entrances, mechanism: str, client: str
) -> None:
    sink.assert_is_exact({**entrances.user(mechanism), "admin.client": client})


@pytest.fixture
def login_file(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    """The JAAS file of Spark's JVM, as -Djava.security.auth.login.config names it."""
    name, file = "java.security.auth.login.config", tmp_path / "jaas.conf"
    java: Any = spark._jvm.java.lang.System  # type: ignore[union-attr]
    configuration: Any = spark._jvm.javax.security.auth.login.Configuration  # type: ignore[union-attr]
    java.setProperty(name, str(file))
    configuration.setConfiguration(None)  # reads the file again
    try:
        yield file
    finally:
        java.clearProperty(name)
        configuration.setConfiguration(None)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_the_login_of_the_jvms_jaas_file_lets_in_source_sink_and_commands(
    sink: Sink, entrances: Entrances, login_file: Path, mechanism: str
) -> None:
    login = entrances.user(mechanism)
    login_file.write_text(f"KafkaClient {{ {login.pop('kafka.sasl.jaas.config')} }};")

    sink.assert_is_exact(login)
    assert sink.read(login) == ["a", "b", "c", "d", "e"]


PROVIDERS = {
    "file": ("FileConfigProvider", "${{file:{folder}/a.properties:word}}"),
    "directory": ("DirectoryConfigProvider", "${{directory:{folder}:word}}"),
}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_password_from_a_config_provider_of_kafka_lets_in_source_sink_and_commands(
    sink: Sink, entrances: Entrances, tmp_path: Path, provider: str
) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "word").write_text(PASSWORD)
    (tmp_path / "secrets" / "a.properties").write_text(f"word={PASSWORD}\n")
    kind, reference = PROVIDERS[provider]
    login = {
        **entrances.user("SCRAM-SHA-512", reference.format(folder=tmp_path / "secrets")),
        "kafka.config.providers": provider,
        f"kafka.config.providers.{provider}.class": f"org.apache.kafka.common.config.provider.{kind}",
    }

    sink.assert_is_exact(login)
    assert sink.read(login) == ["a", "b", "c", "d", "e"]


def test_a_login_that_is_nowhere_is_said_to_be_missing(sink: Sink, entrances: Entrances) -> None:
    login = entrances.user("PLAIN")
    del login["kafka.sasl.jaas.config"]
    missing = "Could not find a 'KafkaClient' entry in the JAAS configuration"

    with pytest.raises(InvalidOptionError, match=missing):
        sink.write(login)
    with pytest.raises(Exception, match=rf"a setting of Kafka's client is wrong.*{missing}"):
        sink.read(login)


def test_a_sink_with_client_credentials_is_let_in_by_a_token(sink: Sink, entrances: Entrances) -> None:
    sink.assert_is_exact(entrances.tokens())


def test_a_sink_finds_its_users_provider_of_tokens(sink: Sink, entrances: Entrances, tmp_path: Path) -> None:
    """The class knows Kafka's client under its own name."""
    jar = tmp_path / "tokens.jar"
    classes = tmp_path / "classes"
    clients = f"{broker_jars(TV2_VERSION)}/*"
    subprocess.run(["javac", "-cp", clients, "-d", str(classes), str(HERE / "Tokens.java")], check=True)
    subprocess.run(["jar", "cf", str(jar), "-C", str(classes), "."], check=True)
    token = tmp_path / "token"
    token.write_text(entrances.issuer.token())
    sink.spark.sparkContext._jsc.addJar(str(jar))

    sink.assert_is_exact(entrances.tokens_of_a_class(token, jar))


def test_the_login_of_aws_loads_and_asks_to_be_let_in(sink: Sink, entrances: Entrances) -> None:
    """By a broker that knows other ways in: those of AWS alone know this one."""
    jars = maven.jars("aws-msk-iam-auth", "2.3.2", [("software.amazon.msk", "aws-msk-iam-auth", "2.3.2")])

    with pytest.raises(BrokerAccessError, match="mechanism 'AWS_MSK_IAM' not enabled in the server"):
        sink.write(entrances.aws(jars))


@pytest.fixture
def realm(tmp_path: Path) -> Realm:
    require_broker()
    require_shims()
    if not has_kdc():
        pytest.skip("no KDC: install krb5-kdc and krb5-admin-server")
    return Realm(tmp_path / "realm")


def test_a_sink_with_a_key_tab_is_let_in_by_kerberos(realm: Realm, spark: SparkSession, tmp_path: Path) -> None:
    system = spark._jvm.java.lang.System  # type: ignore[union-attr]
    with realm.serving(), realm.broker(USER, tmp_path / "broker") as (broker, login):
        try:
            system.setProperty("java.security.krb5.conf", str(realm.settings))
            Sink(spark, broker, tmp_path).assert_commands_find(login)
        finally:
            system.clearProperty("java.security.krb5.conf")


@pytest.mark.walk
def test_a_query_goes_on_without_tickets_and_one_that_starts_says_so_and_goes_on_when_it_gets_them(
    realm: Realm, tmp_path: Path, door: str
) -> None:
    """Connections that are there need no ticket, and the tasks keep theirs."""
    with ExitStack() as stack:
        with realm.serving():
            broker, login = stack.enter_context(realm.broker(USER, tmp_path / "broker", lifetime_s=5))
            query = World(broker, tmp_path, door, **login)
            stack.callback(query.end)
            query.write()
            query.live(None)
            query.recover()
        query.write()
        query.recover()
        query.end()
        query.write()
        program = query.live(None)

        assert program.wait() != 0
        assert re.search("BrokerAccessError: .*check the credentials", program.output.read_text())
        query.check_nothing_is_left_open()
        with realm.serving():
            query.live(None)
            query.recover()
            query.stop()


@pytest.mark.walk
def test_a_query_outlives_its_tokens_while_it_gets_new_ones_and_says_so_when_it_does_not(
    entrances: Entrances, tmp_path: Path, door: str
) -> None:
    issuer = entrances.issuer
    login: dict[str, Any] = {**entrances.tokens(), **_renewed_at_once("kafka.")}
    query = World(entrances.broker, tmp_path, door, **login)
    with issuer.lifetime(4), ExitStack() as stack:
        stack.callback(query.end)
        program = query.live(None)
        for _ in range(3):
            query.write()
            query.recover()
            time.sleep(issuer.lifetime_s)  # the broker looks at the clock
        with issuer.closed():
            time.sleep(issuer.lifetime_s + 1)
            query.write()
            assert program.wait() != 0
        assert re.search("BrokerAccessError: .*check the credentials", program.output.read_text())
        query.check_nothing_is_left_open()
        query.live(None)
        query.recover()
        query.stop()


# What is refused ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_wrong_password_is_refused_at_once(sink: Sink, entrances: Entrances, mechanism: str) -> None:
    with pytest.raises(BrokerAccessError, match=r"credentials.*[Aa]uthentication") as error:
        sink.write({**entrances.user(mechanism, "guessed"), "admin.client": "java"})
    assert "guessed" not in str(error.value)


def test_a_wrong_password_of_a_store_is_named(sink: Sink, entrances: Entrances) -> None:
    with pytest.raises(InvalidOptionError, match=r"settings of the Kafka client are wrong.*password was incorrect"):
        sink.write(entrances.stores_of("jks", "guessed"))


def test_a_wrong_client_secret_is_refused_at_once(sink: Sink, entrances: Entrances) -> None:
    with pytest.raises(BrokerAccessError, match="credentials") as error:
        sink.write(entrances.tokens("guessed"))
    assert "guessed" not in str(error.value)


def test_a_token_that_expires_under_way_is_refused_and_a_new_one_lets_in(entrances: Entrances) -> None:
    issuer = entrances.issuer
    kafka = {name.removeprefix("kafka."): value for name, value in entrances.tokens().items()}
    with issuer.lifetime(4), closing(Brokers(admin_settings.derive({**kafka, **_renewed_at_once()}, {}))) as brokers:
        assert brokers.partitions_of("none") is None
        with issuer.closed():
            time.sleep(issuer.lifetime_s + 1)  # the broker looks at the clock
            with pytest.raises(BrokerAccessError, match="check the credentials"):
                brokers.partitions_of("none")
        until(lambda: _is_let_in(brokers), within_s=30)


def _renewed_at_once(prefix: str = "") -> Login:
    """Settings of a client that asks for its next token in good time, however short the lives of tokens are."""
    return {f"{prefix}sasl.login.refresh.{name}.seconds": "0" for name in ("min.period", "buffer")}


def _is_let_in(brokers: Brokers) -> bool:
    try:
        return brokers.partitions_of("none") is None
    except BrokerAccessError:
        return False


def test_a_delegation_token_is_refused_in_one_sentence(sink: Sink, entrances: Entrances) -> None:
    with pytest.raises(InvalidOptionError, match="delegation tokens are not supported"):
        sink.write(entrances.user("SCRAM-SHA-512", more=' tokenauth="true"'))
