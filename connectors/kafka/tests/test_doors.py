"""Every public call of the connector names the argument that is of a wrong type, before it does anything."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

import oncelog_kafka
from oncelog.errors import InvalidOptionError, UsageError
from oncelog_kafka.options.sink_options import OPTIONS
from tests.support.harness.doors import VALUES, Door, doors_of, wrong_calls

DOORS = [door for door in doors_of([oncelog_kafka]) if door.parameters]


def test_the_walk_finds_what_users_call() -> None:
    assert {"KafkaSink", "KafkaSink.__call__", "oncelog_kafka.packaging.configure"} <= {door.name for door in DOORS}


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.name)
def test_a_wrong_type_is_refused_by_the_name_of_its_argument_and_nothing_happened(door: Door, tmp_path: Path) -> None:
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "znodes": str(tmp_path / "ledger"), "topic": "flights"}
    sink = [oncelog_kafka.sink(**options)] if door.owner else []
    good = [SparkSession.builder, object.__new__(ClassicDataFrame)]  # which no call comes to look at

    for name, label, given in wrong_calls(door, good):
        with pytest.raises(UsageError) as refused:
            door.function(*sink, **given)
        assert name in str(refused.value), label

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", [option.name for option in OPTIONS])
def test_an_option_of_a_wrong_type_is_refused_by_its_name(option: str) -> None:
    for label, make in VALUES.items():
        if not isinstance(make(), str | int | None):
            with pytest.raises(InvalidOptionError, match=option):
                oncelog_kafka.sink(**{option: make()})
                pytest.fail(label)


# fmt: off
CALLS = {
    "sink()": "a required option is missing [option='kafka.bootstrap.servers']",
    'sink("h1:9092")': "sink takes its arguments by name [given_by_position=1, takes=['options']]",
    'sink({"kafka.bootstrap.servers": "h1:9092"})':
        "sink takes its arguments by name [given_by_position=1, takes=['options']]",
    'sink(znodes="/data/ledger", topic="out")': "a required option is missing [option='kafka.bootstrap.servers']",
    'sink(bootstrap_servers="h1:9092", **at)': "a required option is missing [option='kafka.bootstrap.servers']",
    'sink(**servers, **at, ledgerTopic="ledger")':
        "these options exclude each other; give one of them [given=['znodes', 'ledgerTopic']]",
    'sink(**servers, ledgerTopic="my ledger")':
        "the option's value is malformed [option='ledgerTopic', value='my ledger', expected='the name of a topic: at",
    'sink(**servers, znodes="")':
        "the option's value is malformed [option='znodes', value='', expected='a text that is not empty']",
    'sink(**servers, path="/data/ledger")': "unknown option [option='path', use='foreachBatch(sink(...))']",
    'sink(**servers, **at, topics="out")':
        "unknown option [option='topics', use='foreachBatch(sink(...))', did_you_mean='topic']",
    'sink(**servers, **at, topic="")':
        "the option's value is malformed [option='topic', value='', expected='a text that is not empty']",
    'sink(**servers, **at, topic=["out"])':
        "the option's value must be text, a whole number of 64 bits or a bool [option='topic', value=['out']]",
    'sink(**servers, **at, subscribe="in")': "unknown option [option='subscribe', use='foreachBatch(sink(...))']",
    'sink(**servers, **at, checkpointLocation="/ck")':
        "the option does not apply here [option='checkpointLocation', use='foreachBatch(sink(...))',",
    'sink(**servers, **at, transactional_id_prefix="copier")':
        "unknown option [option='transactional_id_prefix', use='foreachBatch(sink(...))',",
    'sink(**servers, **at, transactionalIdPrefix="copier-0")':
        "the option's value is malformed [option='transactionalIdPrefix', value='copier-0', expected='a text that",
    'sink(**servers, **at, groupId="g")':
        "the option needs a transactionalIdPrefix, because a new checkpoint gets a new query id",
    'sink(**servers, **at, takeover="query")':
        "the option needs a transactionalIdPrefix, because a new checkpoint gets a new query id",
    'sink(**servers, **at, transactionTimeoutMs="1m")':
        "the option's value is malformed [option='transactionTimeoutMs', value='1m', expected='a whole number",
    'sink(**servers, **at, transactionTimeoutMs=0)':
        "the option's value is malformed [option='transactionTimeoutMs', value='0', expected='a whole number",
    'sink(**servers, **at, onTimedOutParticipant="ignore")':
        "the option's value is malformed [option='onTimedOutParticipant', value='ignore', expected='one of fail,",
    'sink(**servers, **at, participants=0)':
        "the option's value is malformed [option='participants', value='0', expected='a whole number above 0, at",
    'sink(**servers, **at, **{"kafka.acks": "1"})':
        "the option does not accept this value [option='kafka.acks', value='1', allowed=['-1', 'all'], reason='a",
    'sink(**servers, **at, **{"kafka.enable.idempotence": "false"})':
        "the option does not accept this value [option='kafka.enable.idempotence', value='false', allowed=['true'],",
    'sink(**servers, **at, **{"kafka.transactional.id": "copier"})':
        "the option cannot be set [option='kafka.transactional.id', reason='each task has its own id;",
    'sink(**servers, **at, **{"kafka.transaction.timeout.ms": 60000})':
        "the option cannot be set [option='kafka.transaction.timeout.ms', reason='set",
    'sink(**servers, **at, **{"kafka.value.serializer": "x"})':
        "the option cannot be set [option='kafka.value.serializer', reason='values are written as the",
    'sink(**servers, **at, **{"kafka.interceptor.classes": "x"})':
        'the option cannot be set [option=\'kafka.interceptor.classes\', reason="the connector\'s client',
    'sink(**servers, **at, **{"kafka.security.protocol": "TLS"})':
        "the option's value is malformed [option='kafka.security.protocol', value='TLS', expected=",
    'sink(**servers, **at)(0, rows)': "df must be DataFrame [call='ForeachBatchSink.__call__', found=0, type='int']",
    'sink(**servers, **at)(rows)':
        "ForeachBatchSink.__call__ needs the argument batch_id, which is missing [takes=['df', 'batch_id']]",
    'oncelog_kafka.configure()': "configure needs the argument builder, which is missing [takes=['builder']]",
    'oncelog_kafka.configure("local[2]")':
        "builder must be Builder; pass SparkSession.builder, before getOrCreate() [call='with_jar',",
    'oncelog_kafka.jars("/a.jar")': "jars takes no arguments [given_by_position=1, takes=[]]",
}
# fmt: on
"""What people type wrongly at the sink's function, and what the error says; test_source_options.py has the source's."""


@pytest.mark.parametrize("call", CALLS)
def test_a_wrong_call_is_answered_by_one_sentence_that_names_it(call: str) -> None:
    names = {
        "oncelog_kafka": oncelog_kafka,
        "sink": oncelog_kafka.sink,
        "servers": {"kafka.bootstrap.servers": "127.0.0.1:1"},
        "at": {"znodes": "/data/ledger"},
        "rows": object.__new__(ClassicDataFrame),
    }
    with pytest.raises(UsageError) as refused:
        eval(call, names)

    assert str(refused.value).startswith(CALLS[call])
