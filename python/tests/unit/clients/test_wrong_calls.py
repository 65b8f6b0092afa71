"""What users of other clients type by habit, or by mistake: each is answered by one sentence, and nothing is stored.

The calls are texts, as people type them: a type checker would refuse most of them. What the walk of test_doors.py makes
up by itself, every type at every argument, is not repeated here.
"""

from __future__ import annotations

import datetime
import re
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import oncelog
from oncelog import habits, metadata, runtime
from oncelog.errors import OncelogError
from oncelog.runtime import Log
from tests.support.log.logs import TOPIC, LogWorld, contents, tp

# fmt: off
CALLS = {
    # Opening a log
    "oncelog.open()": "open needs the argument path, which is missing",
    "oncelog.open(None)": "path must be str or PathLike",
    'oncelog.open("")': "the path of the log is empty [path=''",
    'oncelog.open(b"/data/log")': "path must be str or PathLike",
    'oncelog.open("localhost:9092")':
        "a log is a folder, and this names a server; to read or write Kafka use oncelog_kafka:",
    'oncelog.open("h1:9092,h2:9092")':
        "a log is a folder, and this names a server; to read or write Kafka use oncelog_kafka:",
    'oncelog.open("PLAINTEXT://h1:9092")':
        "a log is a folder, and this names a server; to read or write Kafka use oncelog_kafka:",
    'oncelog.open("log*")':
        "a log is one folder, so * and ? are not allowed in its path [path='log*'",
    'oncelog.open(["localhost:9092"])': "path must be str or PathLike",
    'oncelog.open({"bootstrap.servers": "localhost:9092"})': "path must be str or PathLike",
    'oncelog.open("log", "zookeeper://h1:2181")':
        "not a znode store: give a folder (./name), sqlite:/a/file, zk://host:port/chroot, "
        "postgresql://user@host/database, or the URL of",
    'oncelog.open("log", "h1:2181")': "the URL of a ZooKeeper begins with zk:// [znodes='h1:2181'",
    'oncelog.open("log", znodes="znodes")':
        "not a znode store: give a folder (./name), sqlite:/a/file, zk://host:port/chroot, "
        "postgresql://user@host/database, or the URL of",
    'oncelog.open("log", znodes="")':
        "not a znode store: give a folder (./name), sqlite:/a/file, zk://host:port/chroot, "
        "postgresql://user@host/database, or the URL of",
    'oncelog.open("log", znodes=7)': "znodes must be str or None",
    'oncelog.open("hdfs://namenode/log")':
        "the path of a log is a local path, a file: URI, or s3://bucket/folder [scheme='hdfs:/'",
    'oncelog.open("s3a://bucket/log")':
        "the path of a log is a local path, a file: URI, or s3://bucket/folder [scheme='s3a:/'",
    'oncelog.open("s3://")':
        "not the URL of a bucket [expected='s3://bucket/folder?endpoint=https://host:9000&region=eu-central-1'",
    'oncelog.open("nowhere", create=False)':
        "there is no log here; check the path, or create one with oncelog.open(path) or `oncelog topic create` [path=",
    'oncelog.open("log", create="no")': "create must be bool",
    'oncelog.open("log", mode="r")': "open takes no argument mode",
    'oncelog.open(bootstrap_servers="localhost:9092")':
        "open takes no argument bootstrap_servers; oncelog.open(path) opens a log; for Kafka use",
    'oncelog.connect("localhost:9092")':
        "oncelog has no connect; oncelog.open(path) opens a log; for Kafka use oncelog_kafka",
    'oncelog.KafkaProducer(bootstrap_servers="localhost:9092")':
        "oncelog has no KafkaProducer; log.producer() makes a producer of a log that oncelog.open(path) opened",
    'oncelog.KafkaConsumer("flights")':
        "oncelog has no KafkaConsumer; log.consumer() makes a consumer of a log that oncelog.open(path) opened",
    "oncelog.KafkaAdminClient()":
        "oncelog has no KafkaAdminClient; log.admin is the admin client of a log that oncelog.open(path) opened",
    "oncelog.AdminClient({})":
        "oncelog has no AdminClient; log.admin is the admin client of a log that oncelog.open(path) opened",
    'oncelog.NewTopic("flights", 4, 1)': "oncelog has no NewTopic; write log.create_topic(name, partitions=...)",
    'metadata.open_metadata("ledger")':
        "not a znode store: give a folder (./name), sqlite:/a/file, zk://host:port/chroot, "
        "postgresql://user@host/database, or the URL of",
    "metadata.open_metadata(None)": "place must be str",
    'metadata.adopt_host("nowhere")':
        "there is no log here; check the path, or create one with oncelog.open(path) or `oncelog topic create` [path=",
    'runtime.copy_metadata("log", "backup")': "log must be Log",
    'runtime.copy_metadata(log, "memory")': "the target store ends with this process; name one that lasts [to='memory'",
    # Topics
    "log.create_topic()": "Log.create_topic needs the argument name, which is missing",
    'log.create_topic("flights")': "a topic of this name exists [topic='flights'",
    'log.create_topic("late flights")':
        "a topic's name has 1 to 249 letters, digits, dots, underscores or dashes, and is not '.' or '..'",
    "log.create_topic(None)": "name must be str",
    'log.create_topic(["late"])': "name must be str",
    'log.create_topic("late", 4)': "Log.create_topic takes name by position, the rest by name",
    'log.create_topic("late", num_partitions=4)': "Log.create_topic takes no argument num_partitions; write partitions",
    'log.create_topic("late", partitions="4")': "partitions must be int",
    'log.create_topic("late", partitions=0)': "partitions is out of bounds [partitions=0",
    'log.create_topic("late", partitions=501)': "partitions is out of bounds [partitions=501",
    'log.create_topic("late", replication_factor=1)':
        "Log.create_topic takes no argument replication_factor; the files are as safe as their storage; leave it out",
    'log.create_topic("late", retention_ms="1d")': "retention_ms must be int or None",
    'log.create_topic("late", retention_ms=datetime.timedelta(days=1))': "retention_ms must be int or None",
    'log.create_topic("late", retention_bytes=-1)': "retention_bytes is out of bounds [retention_bytes=-1",
    'log.create_topic("late", config={"retention.ms": "1000"})':
        "Log.create_topic takes no argument config; write retention_ms and retention_bytes",
    'log.create_topics(["late"])': "Log has no create_topics; write create_topic(name, partitions=...) for each",
    "log.topics()": "Log has no topics; write admin.list_topics()",
    "admin.create_topics([])": "Admin has no create_topics; write create_topic(name, partitions=...) for each",
    'admin.delete_topics(["flights"])': "Admin has no delete_topics; write delete_topic(name) for each",
    'admin.describe_topics(["flights"])': "Admin has no describe_topics; write describe_topic(name) for each",
    'admin.create_partitions({"flights": 4})':
        "Admin has no create_partitions; a topic's number of partitions is fixed; create another topic and",
    "admin.alter_configs([])": "Admin has no alter_configs; write configure_topic(name, retention_ms=...)",
    "admin.describe_configs([])": "Admin has no describe_configs; write describe_topic(name)",
    'admin.delete_topic("nowhere")':
        "no such topic; create it with `oncelog topic create` or create_topic() [topic='nowhere'",
    'admin.delete_topic(["flights"])': "name must be str",
    'admin.describe_topic("nowhere")':
        "no such topic; create it with `oncelog topic create` or create_topic() [topic='nowhere'",
    'admin.configure_topic("nowhere", retention_ms=1)':
        "no such topic; create it with `oncelog topic create` or create_topic() [topic='nowhere'",
    'admin.configure_topic("flights", retention_ms="1d")': "retention_ms must be int or None",
    'admin.configure_topic("flights", partitions=4)': "Admin.configure_topic takes no argument partitions",
    # Making producers
    "Producer()":
        "Producer needs the argument services, which is missing; use log.producer(), log.consumer() or log.admin of",
    'Producer({"bootstrap.servers": "localhost:9092"})':
        "services must be LogServices; a producer is made by log.producer(...)",
    "Producer(log)": "services must be LogServices; a producer is made by log.producer(...)",
    'log.producer("copier")': "Log.producer takes its arguments by name",
    'log.producer({"transactional.id": "copier"})': "Log.producer takes its arguments by name",
    'log.producer(bootstrap_servers="localhost:9092")':
        "Log.producer takes no argument bootstrap_servers; oncelog.open(path) opens a log; for Kafka use",
    'log.producer(transactional_id="")': "a transactional id must be text, and not empty [found=''",
    "log.producer(transactional_id=7)": "transactional_id must be str or None",
    "log.producer(transactional_id=uuid.UUID(int=0))": "transactional_id must be str or None",
    'log.producer(codec="gzip")': "unknown codec [codec='gzip'",
    "log.producer(codec=None)": "codec must be str",
    'log.producer(compression_type="lz4")': "Log.producer takes no argument compression_type; write codec",
    'log.producer(acks="all")':
        "Log.producer takes no argument acks; every producer is idempotent and waits until its records are safe;",
    "log.producer(enable_idempotence=True)":
        "Log.producer takes no argument enable_idempotence; every producer is idempotent and waits until its",
    "log.producer(retries=5)":
        "Log.producer takes no argument retries; delivery_timeout_ms says how long errors are retried",
    "log.producer(max_in_flight_requests_per_connection=1)":
        "Log.producer takes no argument max_in_flight_requests_per_connection; every producer is idempotent and",
    "log.producer(value_serializer=str.encode)":
        "Log.producer takes no argument value_serializer; pass bytes to send()",
    "log.producer(key_serializer=str.encode)": "Log.producer takes no argument key_serializer; pass bytes to send()",
    "log.producer(linger_ms=-1)": "linger_ms is out of bounds [linger_ms=-1",
    'log.producer(linger_ms="5")': "linger_ms must be int",
    'log.producer(transaction_timeout_ms="60000")': "transaction_timeout_ms must be int",
    'log.producer(transactional_id="copier", transaction_timeout_ms=10**9).init_transactions()':
        "transaction_timeout_ms must be positive and at most the maximum [timeout_ms=1000000000",
    "log.producer(delivery_timeout_ms=None)": "delivery_timeout_ms must be int",
    # Sending
    "producer.send()": "Producer.send needs the argument topic, which is missing",
    'producer.send("flights")': "Producer.send needs the argument value, which is missing",
    'producer.send("flights", "text")': "a record holds bytes or None; encode it [part='value'",
    'producer.send("flights", 7)': "a record holds bytes or None; encode it [part='value'",
    'producer.send("flights", {"delay": 7})': "a record holds bytes or None; encode it [part='value'",
    'producer.send("flights", b"a", b"key")': "Producer.send takes topic and value by position, the rest by name",
    'producer.send("flights", b"a", key="UA")': "a record holds bytes or None; encode it [part='key'",
    'producer.send("flights", b"a", partition="0")': "partition must be a whole number [partition='0'",
    'producer.send("flights", b"a", partition=2)': "the topic has no such partition [topic='flights'",
    'producer.send("flights", b"a", partition=-1)': "the topic has no such partition [topic='flights'",
    'producer.send("flights", b"a", headers={"a": b"b"})': "headers are (name, value) pairs [part='headers'",
    'producer.send("flights", b"a", headers=[("a", "b")])':
        "a record holds bytes or None; encode it [part='headers'",
    'producer.send("flights", b"a", headers=[(b"a", b"b")])': "a header's name must be text [part='headers'",
    'producer.send("flights", b"a", headers=None)': "headers are (name, value) pairs [part='headers'",
    'producer.send("flights", b"a", timestamp=7)': "Producer.send takes no argument timestamp; write timestamp_ms",
    'producer.send("flights", b"a", timestamp_ms="7")':
        "a timestamp must be milliseconds since 1970 [part='timestamp_ms'",
    'producer.send("flights", b"a", timestamp_ms=-1)':
        "a timestamp must be milliseconds since 1970 [part='timestamp_ms'",
    'producer.send("flights", b"a", timestamp_ms=datetime.datetime(2026, 1, 1))':
        "a timestamp must be milliseconds since 1970 [part='timestamp_ms'",
    'producer.send("flights", b"a", on_delivery=print)':
        "Producer.send takes no argument on_delivery; send() returns a receipt, and its result() is the record's",
    'producer.send("flights", b"a", callback=print)':
        "Producer.send takes no argument callback; send() returns a receipt, and its result() is the record's place",
    'producer.send("flights", bytes(17 * 2**20))': "the record is too large [size_bytes=17825792",
    'producer.send("nowhere", b"a")':
        "no such topic; create it with `oncelog topic create` or create_topic() [topic='nowhere'",
    'producer.send("", b"a")': "a topic's name must be text, and not empty [found=''",
    'producer.send(None, b"a")': "a topic's name must be text, and not empty [found=None",
    'producer.send(tp, b"a")':
        "a topic's name must be text, and not empty [found=TopicPartition(topic='flights', partition=0)",
    'producer.produce("flights", b"a")': "Producer has no produce; write send(topic, value, key=...)",
    'producer.send_batch("flights", [b"a"])': "batch must be RecordBatch or Table",
    'producer.send_batch("flights", pa.table({"payload": [b"a"]}))':
        "a record batch has no value column [column='value'",
    'producer.send_batch("flights", pa.table({"value": [1]}))': "a column has the wrong type [column='value'",
    'producer.send_batch("flights", pa.table({"value": [b"a"], "extra": [1]}))':
        "a record has no such column [column='extra'",
    'producer.send_batch("flights", pa.table({"value": [b"a"], "key": [1]}))':
        "a column has the wrong type [column='key'",
    'producer.send_batch("flights", pa.table({"value": [b"a"], "timestamp_ms": ["now"]}))':
        "a column has the wrong type [column='timestamp_ms'",
    'producer.send_batch("flights", pa.table({"value": [b"a"]}), partition=2)':
        "the topic has no such partition [topic='flights'",
    "producer.flush(10)": "Producer.flush takes no arguments",
    "producer.flush(timeout=10)": "Producer.flush takes no argument timeout",
    "producer.poll(0)": "Producer has no poll; a producer needs no polling: a receipt's result() is the record's place",
    'producer.partitions_for("flights")':
        "Producer has no partitions_for; log.admin.describe_topic(topic).partitions lists them",
    "producer.list_topics()": "Producer has no list_topics; log.admin.list_topics() lists the topics",
    "receipt.get(timeout=10)": "Receipt has no get; write result()",
    "receipt.result(timeout=10)": "Receipt.result takes no argument timeout",
    "receipt.add_callback(print)": "Receipt has no add_callback; write result(), best after flush()",
    "receipt.add_errback(print)": "Receipt has no add_errback; result() raises the error of the send",
    "receipt.succeeded()": "Receipt has no succeeded; write is_done, and result()",
    "receipt.offset": "Receipt has no offset; write result().offset",
    "receipt.result().timestamp": "RecordMetadata has no timestamp; write timestamp_ms",
    'ended.send("flights", b"a")': "this producer is closed; make a new one",
    # Transactions
    "producer.init_transactions()": "transactions need a transactional_id: log.producer(transactional_id=...)",
    "producer.begin_transaction()": "transactions need a transactional_id: log.producer(transactional_id=...)",
    "producer.commit_transaction()": "transactions need a transactional_id: log.producer(transactional_id=...)",
    "producer.transaction().__enter__()": "transactions need a transactional_id: log.producer(transactional_id=...)",
    'producer.send_offsets_to_transaction({tp: 0}, "g")':
        "transactions need a transactional_id: log.producer(transactional_id=...)",
    "new.begin_transaction()":
        "The producer's state does not allow this; make one of the legal calls [state='uninitialized',",
    'new.send("flights", b"a")':
        "The producer's state does not allow this; make one of the legal calls [state='uninitialized', call='send'",
    "new.commit_transaction()":
        "The producer's state does not allow this; make one of the legal calls [state='uninitialized',",
    "ready.init_transactions()":
        "The producer's state does not allow this; make one of the legal calls [state='ready',",
    "ready.init_transactions(30)": "Producer.init_transactions takes its arguments by name",
    'ready.send("flights", b"a")':
        "The producer's state does not allow this; make one of the legal calls [state='ready', call='send'",
    "ready.commit_transaction()":
        "The producer's state does not allow this; make one of the legal calls [state='ready',",
    "ready.abort_transaction()":
        "The producer's state does not allow this; make one of the legal calls [state='ready',",
    "copier.begin_transaction()":
        "The producer's state does not allow this; make one of the legal calls [state='in_transaction',",
    "copier.prepare_transaction()":
        "nothing was written in this transaction, so there is nothing to prepare; commit or abort it",
    'copier.send_offsets_to_transaction([tp], "g")':
        "offsets must be a mapping of TopicPartition(topic, partition) to OffsetAndMetadata(offset, metadata) or",
    "copier.send_offsets_to_transaction({tp: 0}, consumer)": "group_id must be str",
    "copier.send_offsets_to_transaction({tp: 0}, None)": "group_id must be str",
    'copier.send_offsets_to_transaction({tp: 0}, "")': "a group id must be text, and not empty [found=''",
    'copier.send_offsets_to_transaction({tp: 0}, group_metadata="g")':
        "Producer.send_offsets_to_transaction takes no argument group_metadata; write group_id",
    'copier.send_offsets_to_transaction({tp: "0"}, "g")':
        "each value of offsets must be OffsetAndMetadata(offset, metadata) or int",
    'copier.send_offsets_to_transaction({tp: -1}, "g")': "offset is out of bounds [partition='flights-0'",
    'copier.send_offsets_to_transaction({("flights", 0): 0}, "g")':
        "each key of offsets must be TopicPartition(topic, partition)",
    'copier.send_offsets_to_transaction({TopicPartition("nowhere", 0): 0}, "g")':
        "no such topic; create it with `oncelog topic create` or create_topic() [topic='nowhere'",
    'ready.complete_transaction("1:0:ready")':
        "token must be PreparedTransaction(transactional_id, producer); PreparedTransaction.parse reads its text",
    'ready.complete_transaction(oncelog.PreparedTransaction.parse("1:0:ready"))':
        "The producer's state does not allow this; make one of the legal calls [state='ready',",
    'oncelog.PreparedTransaction.parse("token")':
        "the token of a prepared transaction must be <producer id>:<epoch>:<transactional id>",
    # Making consumers
    'Consumer("flights")': "services must be LogServices; a consumer is made by log.consumer(...)",
    'log.consumer("flights")': "Log.consumer takes its arguments by name",
    'log.consumer({"group.id": "g"})': "Log.consumer takes its arguments by name",
    'log.consumer(topics=["flights"])': "Log.consumer takes no argument topics; write subscribe([...])",
    'log.consumer(group="g")': "Log.consumer takes no argument group; write group_id",
    'log.consumer(group_id="")': "a group id must be text, and not empty [found=''",
    "log.consumer(group_id=7)": "group_id must be str or None",
    'log.consumer(isolation_level="dirty")': "unknown isolation level [isolation_level='dirty'",
    "log.consumer(isolation_level=1)": "isolation_level must be IsolationLevel or str",
    'log.consumer(auto_offset_reset="smallest")':
        "auto_offset_reset must be earliest, latest or none [auto_offset_reset='smallest'",
    "log.consumer(auto_offset_reset=None)": "auto_offset_reset must be str",
    "log.consumer(enable_auto_commit=False)":
        "Log.consumer takes no argument enable_auto_commit; only commit() commits offsets; leave it out",
    "log.consumer(auto_commit_interval_ms=1000)":
        "Log.consumer takes no argument auto_commit_interval_ms; only commit() commits offsets; leave it",
    "log.consumer(value_deserializer=bytes.decode)":
        "Log.consumer takes no argument value_deserializer; decode the bytes that poll() returns",
    "log.consumer(key_deserializer=bytes.decode)":
        "Log.consumer takes no argument key_deserializer; decode the bytes that poll() returns",
    "log.consumer(max_poll_records=10)": "Log.consumer takes no argument max_poll_records; write poll(max_records=...)",
    # Assigning
    "reader.assign(tp)":
        "partitions must be an iterable of TopicPartition(topic, partition); put the single value into a list",
    'reader.assign("flights")': "partitions must be an iterable of TopicPartition(topic, partition)",
    'reader.assign(["flights"])': "each item of partitions must be TopicPartition(topic, partition)",
    'reader.assign([("flights", 0)])': "each item of partitions must be TopicPartition(topic, partition)",
    'reader.assign([TopicPartition("nowhere", 0)])':
        "no such topic; create it with `oncelog topic create` or create_topic() [topic='nowhere'",
    'reader.assign([TopicPartition("flights", 2)])': "the topic has no such partition [topic='flights'",
    "reader.assign({tp: 0})":
        "assign takes partitions without offsets; set offsets with seek [found={TopicPartition(topic='flights',",
    "reader.assign(None)": "partitions must be an iterable of TopicPartition(topic, partition)",
    'reader.subscribe("flights")': "names must be an iterable of str; put the single value into a list",
    'reader.subscribe(["nowhere"])':
        "no such topic; create it with `oncelog topic create` or create_topic() [topic='nowhere'",
    "reader.subscribe([tp])": "each item of names must be str",
    'reader.subscribe(pattern="fl.*")':
        "Consumer.subscribe takes no argument pattern; name each topic; log.admin.list_topics() lists them",
    'reader.subscribe(["flights"], on_assign=print)':
        "Consumer.subscribe takes no argument on_assign; there is no rebalancing; leave it out",
    'reader.subscribe(["flights"], listener=print)':
        "Consumer.subscribe takes no argument listener; there is no rebalancing; leave it out",
    'reader.subscribe(topics=["flights"])': "Consumer.subscribe takes no argument topics; write subscribe([...])",
    "reader.unsubscribe()": "Consumer has no unsubscribe; write assign([])",
    "reader.subscription()": "Consumer has no subscription; write assignment()",
    "reader.paused()": "Consumer has no paused; keep your own list of what you paused",
    "reader.topics()": "Consumer has no topics; log.admin.list_topics() lists the topics",
    "reader.list_topics()": "Consumer has no list_topics; log.admin.list_topics() lists the topics",
    'reader.partitions_for_topic("flights")':
        "Consumer has no partitions_for_topic; log.admin.describe_topic(topic).partitions lists them",
    # Reading
    "reader.poll(100)": "nothing is assigned to this consumer: call subscribe or assign first",
    "reader.poll_batches()": "nothing is assigned to this consumer: call subscribe or assign first",
    "consumer.poll(1.0)": "timeout_ms must be int",
    "consumer.poll(-1)": "timeout_ms is out of bounds [timeout_ms=-1",
    "consumer.poll(timeout=1)": "Consumer.poll takes no argument timeout; did you mean timeout_ms?",
    "consumer.poll(max_records=0)": "max_records is out of bounds [max_records=0",
    "consumer.poll(100, 5)": "Consumer.poll takes timeout_ms by position, the rest by name",
    "consumer.consume(5)": "Consumer has no consume; write poll(timeout_ms=..., max_records=...)",
    "consumer.getmany()": "Consumer has no getmany; write poll(timeout_ms=..., max_records=...)",
    "consumer.getone()": "Consumer has no getone; write poll(timeout_ms=..., max_records=1)",
    "next(iter(consumer))": "a consumer is read with poll: for record in consumer.poll(timeout_ms=1000)",
    "next(consumer)": "a consumer is read with poll: for record in consumer.poll(timeout_ms=1000)",
    **{
        f"consumer.poll().{call}":
            f"Records has no {call.removesuffix('()')}; poll() returns a list: for record in consumer.poll("
        for call in ("items()", "keys()", "values()", "key()", "value()", "topic()", "partition()", "offset()")
    },
    "consumer.poll().error()":
        "Records has no error; errors are raised, and poll() returns a list: for record in consumer.poll(",
    "record.error()": "ConsumerRecord has no error; errors are raised; leave it out",
    "record.timestamp": "ConsumerRecord has no timestamp; write timestamp_ms",
    "strict.poll()":
        "the group has no committed offset for the partition, and auto_offset_reset is none [group_id='none'",
    "closed.poll()": "this consumer is closed; make a new one",
    "consumer.seek(tp)": "Consumer.seek needs the argument offset, which is missing",
    'consumer.seek(tp, "latest")': "offset must be int",
    "consumer.seek(tp, 99)": "the offset is not within the log [partition='flights-0'",
    'consumer.seek(TopicPartition("flights", 1), 0)':
        "the partition is not assigned to this consumer [partition='flights-1'",
    'consumer.seek(TopicPartition("flights", 0, 5))': "TopicPartition takes topic and partition alone",
    "consumer.seek_to_beginning(tp)":
        "partitions must be an iterable of TopicPartition(topic, partition); put the single value into a list",
    "reader.seek_to_end()": "nothing is assigned to this consumer: call subscribe or assign first",
    "consumer.position([tp])": "partition must be TopicPartition(topic, partition)",
    "consumer.pause(tp)":
        "partitions must be an iterable of TopicPartition(topic, partition); put the single value into a list",
    'consumer.resume("flights")': "partitions must be an iterable of TopicPartition(topic, partition)",
    "consumer.beginning_offsets(tp)":
        "partitions must be an iterable of TopicPartition(topic, partition); put the single value into a list",
    'consumer.end_offsets([TopicPartition("nowhere", 0)])':
        "no such topic; create it with `oncelog topic create` or create_topic() [topic='nowhere'",
    'consumer.offsets_for_times({tp: "now"})': "each value of timestamps_ms must be int",
    "consumer.offsets_for_times({tp: datetime.datetime(2026, 1, 1)})": "each value of timestamps_ms must be int",
    "consumer.get_watermark_offsets(tp)":
        "Consumer has no get_watermark_offsets; write beginning_offsets([partition]) and end_offsets([partition])",
    "consumer.highwater(tp)": "Consumer has no highwater; write end_offsets([partition])",
    'consumer.lag("flights")': "partition must be TopicPartition(topic, partition)",
    # Committing
    "reader.commit()": "committed offsets need a group: log.consumer(group_id=...)",
    "reader.committed([tp])": "committed offsets need a group: log.consumer(group_id=...)",
    "consumer.commit([tp])":
        "offsets must be a mapping of TopicPartition(topic, partition) to OffsetAndMetadata(offset, metadata) or",
    "consumer.commit({tp: None})": "each value of offsets must be OffsetAndMetadata(offset, metadata) or int",
    'consumer.commit({tp: "0"})': "each value of offsets must be OffsetAndMetadata(offset, metadata) or int",
    "consumer.commit({tp: -1})": "offset is out of bounds [partition='flights-0'",
    'consumer.commit({tp: (0, "")})': "each value of offsets must be OffsetAndMetadata(offset, metadata) or int",
    'consumer.commit({"flights": 0})': "each key of offsets must be TopicPartition(topic, partition)",
    'consumer.commit({TopicPartition("nowhere", 0): 0})':
        "no such topic; create it with `oncelog topic create` or create_topic() [topic='nowhere'",
    'consumer.commit({tp: OffsetAndMetadata(0, "x" * 5000)})':
        "the metadata of a committed offset is too long [partition='flights-0'",
    'consumer.commit({tp: OffsetAndMetadata(0, "", 1)})': "OffsetAndMetadata takes offset and metadata alone",
    "consumer.commit(asynchronous=False)":
        "Consumer.commit takes no argument asynchronous; a commit is done when the call returns; leave it out",
    "consumer.commit(message=record)":
        "Consumer.commit takes no argument message; write commit({TopicPartition(topic, partition): offset + 1})",
    "consumer.commit_async()": "Consumer has no commit_async; write commit()",
    "consumer.store_offsets(record)": "Consumer has no store_offsets; write commit({partition: offset})",
    "consumer.consumer_group_metadata()":
        "Consumer has no consumer_group_metadata; send_offsets_to_transaction() takes the group's id",
    "consumer.committed()": "Consumer.committed needs the argument partitions, which is missing",
    "consumer.committed(tp)":
        "partitions must be an iterable of TopicPartition(topic, partition); put the single value into a list",
    'TopicPartition("flights")': "TopicPartition needs the argument partition, which is missing",
    'TopicPartition("flights", "0")': "partition must be int",
    "TopicPartition(None, 0)": "topic must be str",
    'OffsetAndMetadata("5")': "offset must be int",
    "OffsetAndMetadata(5, None)": "metadata must be str",
    # Looking after a log
    'admin.list_offsets({tp: "newest"})': "each value of wanted must be int or 'earliest' or 'latest'",
    "admin.list_offsets([tp])":
        "wanted must be a mapping of TopicPartition(topic, partition) to int or 'earliest' or 'latest'",
    "admin.list_offsets({tp: -1})": "timestamp_ms is out of bounds [timestamp_ms=-1",
    "admin.delete_records({tp: 99})": "the offset is not within the log [partition='flights-0'",
    "admin.delete_records([tp])": "before must be a mapping of TopicPartition(topic, partition) to int",
    'admin.list_transactions(states="ongoing")':
        "states must be an iterable of TxnState or str; put the single value into a list",
    'admin.list_transactions(states=["open"])': "unknown state [state='open'",
    'admin.describe_transaction("nobody")': "no such transactional id [transactional_id='nobody'",
    'admin.describe_transactions(["nobody"])':
        "Admin has no describe_transactions; write describe_transaction(transactional_id) for each",
    'admin.abort_transaction("nobody")': "no such transactional id [transactional_id='nobody'",
    'admin.find_hanging(max_age_ms="1h")': "max_age_ms must be int or None",
    'admin.describe_ledger("nobody")':
        "no sink has written under this prefix; the prefix is the sink's transactionalIdPrefix (or the query's",
    'admin.abort_round("nobody")':
        "no sink has written under this prefix; the prefix is the sink's transactionalIdPrefix (or the query's",
    "admin.list_consumer_groups()": "Admin has no list_consumer_groups; write list_groups()",
    'admin.describe_consumer_groups(["g"])':
        "Admin has no describe_consumer_groups; write describe_group(group_id) for each",
    'admin.list_consumer_group_offsets("g")':
        "Admin has no list_consumer_group_offsets; write describe_group(group_id)",
    'admin.alter_consumer_group_offsets("g", {})':
        "Admin has no alter_consumer_group_offsets; write alter_offsets(group_id, {partition: offset})",
    'admin.delete_consumer_groups(["g"])': "Admin has no delete_consumer_groups; write delete_group(group_id) for each",
    "admin.describe_cluster()": "Admin has no describe_cluster; log.cluster_id is its id",
    'admin.describe_group("nobody")': "no such consumer group [group_id='nobody'",
    'admin.describe_group(["g"])': "group_id must be str",
    'admin.delete_group("nobody")': "no such consumer group [group_id='nobody'",
    'admin.alter_offsets("g", {tp: 99})': "the offset is not within the log [partition='flights-0'",
    'admin.alter_offsets({tp: 0}, "g")': "group_id must be str",
    'admin.reset_group("nobody", "earliest")': "no such consumer group [group_id='nobody'",
    'admin.reset_group("g", "beginning")': "to must be 'earliest' or 'latest'",
    'admin.reset_group("g", "latest", names="flights")':
        "names must be an iterable of str; put the single value into a list",
    'admin.dump("nowhere")': "no such topic; create it with `oncelog topic create` or create_topic() [topic='nowhere'",
    'admin.dump("flights", start=1)': "a start offset is of one partition: name the partition [topic='flights'",
    'admin.dump_metadata("topics")': "not the path of a znode; write it like /topics/flights [path='topics'",
    "admin.verify(on_progress=True)": "on_progress must be a function",
    'admin.upkeep(dry_run="yes")': "dry_run must be bool",
    "admin.collect(dry_run=None)": "dry_run must be bool",
    "admin.measure_metadata(largest=-1)": "largest is out of bounds [largest=-1",
    'admin.expire_offsets(retention_ms="7d")': "retention_ms must be int",
}
# fmt: on
"""The call, and how its error begins."""

NEVER_SHOWN = re.compile(r" object at 0x|<\w+\.\w+: |9223372036854775807|\n")


@pytest.fixture
def world(memory_world: LogWorld) -> LogWorld:
    """The doors are before all stores."""
    return memory_world


def held(log: Log) -> dict[str, Any]:
    """What users have at hand, by the name that the calls have for it."""
    producer, new, ready, copier, ended = (
        log.producer(),
        *(log.producer(transactional_id=name) for name in ("new", "ready", "copier")),
        log.producer(),
    )
    receipt = producer.send(TOPIC, b"a", partition=0)
    producer.flush()
    ready.init_transactions()
    copier.init_transactions()
    copier.begin_transaction()
    ended.close()
    reader, consumer, strict, closed = (
        log.consumer(),
        log.consumer(group_id="g", auto_offset_reset="earliest"),
        log.consumer(group_id="none", auto_offset_reset="none"),
        log.consumer(group_id="g"),
    )
    consumer.assign([tp()])
    strict.assign([tp()])
    closed.close()
    (record,) = consumer.poll()
    ours = {name: getattr(oncelog, name) for name in ("Consumer", "Producer", "TopicPartition", "OffsetAndMetadata")}
    modules = {
        "oncelog": oncelog,
        "metadata": metadata,
        "runtime": runtime,
        "datetime": datetime,
        "uuid": uuid,
        "pa": pa,
    }
    return {**modules, **ours, **locals(), "admin": log.admin, "tp": tp()}


@pytest.mark.parametrize("call", CALLS)
def test_a_wrong_call_is_answered_by_one_sentence_and_nothing_is_stored(
    world: LogWorld, log: Log, call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = held(log)
    before = contents(world)

    with pytest.raises(OncelogError) as refused:
        eval(call, names)

    assert str(refused.value).startswith(CALLS[call])
    assert NEVER_SHOWN.search(str(refused.value)) is None, str(refused.value)
    assert contents(world) == before
    assert list(tmp_path.iterdir()) == []


def test_every_habit_that_has_an_answer_is_tried_once() -> None:
    typed = "\n".join(CALLS)

    assert [name for name in habits.ARGUMENTS if f"{name}=" not in typed] == []
    assert [name for names in habits.NAMES.values() for name in names if f".{name}" not in typed] == []
