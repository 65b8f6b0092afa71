"""Records of other programs in a ledger's topic, on a real broker: they are left out, whatever producer wrote them."""

from __future__ import annotations

from contextlib import closing

import pytest

from oncelog.errors import StoreAccessError
from oncelog.ports import Create
from oncelog_kafka.errors import ForeignTopicError
from oncelog_kafka.ledger import ledger_store
from oncelog_kafka.ledger.ledger_store import Settings, open_ledger
from oncelog_kafka.options.admin_settings import JavaClient
from oncelog_kafka.protocol.ports import Fetched
from tests.support.servers.kafka import KafkaBroker, Transaction, fresh_name, require_shims, send


@pytest.fixture(params=["kafka-python", "java"])
def settings(request: pytest.FixtureRequest, kafka: KafkaBroker) -> Settings:
    if request.param == "java":
        require_shims()
        return JavaClient({"bootstrap.servers": kafka.address})
    return {"bootstrap_servers": [kafka.address]}


def entries_of(settings: Settings, topic: str) -> list[bytes]:
    with closing(ledger_store.requests_of(settings)) as requests:
        found = requests.fetch(topic, 0)
    assert isinstance(found, Fetched)
    return [one.value for batch in found.batches for one in batch.records if one.value is not None]


def test_a_ledger_is_read_and_written_between_records_of_any_producer(kafka: KafkaBroker, settings: Settings) -> None:
    topic = fresh_name("ledger")
    with closing(open_ledger(settings, topic)) as store:
        store.multi([Create("/a", b"1")])
        (copied, *_) = entries_of(settings, topic)
        Transaction(kafka).send(topic, "committed").commit()
        Transaction(kafka).send(topic, "aborted", copied.decode("latin-1")).abort()
        store.multi([Create("/b", b"2")])
        still_open = Transaction(kafka).send(topic, "still open")
        send(kafka, topic, "idempotent", None, copied.decode("latin-1"), keys=["k"])
        send(kafka, topic, "plain", "", None, enable_idempotence=False)
        send(kafka, topic, "compressed " * 100, "more of it", enable_idempotence=False, compression_type="gzip")
        store.multi([Create("/c", b"3")])

        for reader in (store, open_ledger(settings, topic)):
            with closing(reader):
                found = dict(reader.children_data("/"))
                assert [found[name].data for name in "abc"] == [b"1", b"2", b"3"]
                assert reader.foreign == 14  # type: ignore[attr-defined]  # with two markers
        still_open.abort()


def test_a_ledger_with_records_that_one_client_cannot_read_names_the_other(
    kafka: KafkaBroker, settings: Settings
) -> None:
    topic = fresh_name("ledger")
    with closing(open_ledger(settings, topic)) as store:
        store.multi([Create("/a")])
        send(kafka, topic, "compressed " * 100, enable_idempotence=False, compression_type="lz4")
        if isinstance(settings, JavaClient):
            assert "a" in store.children("/")
        else:
            with pytest.raises(StoreAccessError, match=r"admin\.client=java"):
                store.children("/")


def test_a_topic_of_other_data_is_refused_as_a_ledger(kafka: KafkaBroker, settings: Settings) -> None:
    """Its settings may be those of a ledger."""
    wanted = {"message_timestamp_type": "LogAppendTime", "retention_ms": "-1", "retention_bytes": "-1"}
    topic = kafka.create_topic(fresh_name("orders"), partitions=1, **wanted)
    Transaction(kafka).send(topic, "order 17").commit()
    send(kafka, topic, "order 18", enable_idempotence=False)

    with pytest.raises(ForeignTopicError, match="it belongs to another program"):
        open_ledger(settings, topic)
    assert len(entries_of(settings, topic)) == 1, "nothing was written to it"
