#!/usr/bin/env bash
# Apache Kafka: a topic's message.timestamp.before.max.ms also refuses the markers that end transactions.
#
# One would guess: the limit is for the records of producers. A marker is written by the broker itself, with its own time.
# What happens: the leader of a partition gives the marker a time, and compares it a moment later with the limit as if it
#   were a producer's. If more milliseconds than the limit have passed, the marker is refused. The coordinator does not
#   expect that answer: it never sends the marker again, and the transaction stays in PrepareCommit or PrepareAbort.
#   read_committed readers of all its partitions stop there, and its producer gets no further, until the limit is
#   raised and the coordinator is loaded anew (a restart of its broker, here).
# Whom it bites: whoever sets a limit of a few milliseconds; and any limit that is shorter than a pause of the broker.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "confluent-kafka==2.16.1"

for version in ${VERSIONS:-4.0.0 4.1.1 4.3.1 4.4.0}; do
  mkdir "$folder/$version"
  cat >"$folder/$version/pom.xml" <<XML
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>x</groupId><artifactId>x</artifactId>
<version>0</version><packaging>pom</packaging><dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>$version</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>$version</version></dependency>
</dependencies></project>
XML
  mvn -B -ntp -q -f "$folder/$version/pom.xml" dependency:copy-dependencies -DoutputDirectory="$folder/$version/jars" \
    -DincludeScope=runtime
done

cat >"$folder/markers.py" <<'PYTHON'
import socket
import subprocess
import sys
import time
from pathlib import Path

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import (
    AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType,
)

folder, version = Path(sys.argv[1]), sys.argv[2]


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


address, controller = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
java = ["java", "-Xmx384m", "-cp", f"{folder}/{version}/jars/*"]
settings = folder / version / "server.properties"
settings.write_text(f"""
process.roles=broker,controller
node.id=1
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
listeners=PLAINTEXT://{address},CONTROLLER://{controller}
advertised.listeners=PLAINTEXT://{address}
controller.quorum.voters=1@{controller}
log.dirs={folder}/{version}/data
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
""")
quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
format_it = ["kafka.tools.StorageTool", "format", "--cluster-id", "4L6g3nShT-eMCtK--X86sw", "--config", str(settings)]
subprocess.run([*java, *format_it], check=True, **quiet)


def start():
    return subprocess.Popen([*java, "kafka.Kafka", str(settings)], **quiet)


def limit(ms):
    """Set the limit of the topic."""
    entry = ConfigEntry(
        "message.timestamp.before.max.ms", str(ms), incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ResourceType.TOPIC, "orders", incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(30)
    time.sleep(2)


def committed_rows():
    """What a read_committed reader finds within ten seconds."""
    reader = Consumer({
        "bootstrap.servers": address, "group.id": "reader", "auto.offset.reset": "earliest",
        "isolation.level": "read_committed", "enable.auto.commit": False, "log_level": 0,
    })
    reader.subscribe(["orders"])
    found = [one for one in reader.consume(1, timeout=10) if one.error() is None]
    reader.close()
    return len(found)


broker = start()
try:
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    for _ in range(60):
        try:
            admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(10)
            break
        except Exception:
            time.sleep(1)
    producer = Producer({"bootstrap.servers": address, "transactional.id": "t", "log_level": 0})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("orders", b"a row, while the topic had no limit")
    producer.flush(30)
    limit(0)
    time.sleep(0.1)
    try:
        producer.commit_transaction(15)
        answer = "answered"
    except Exception as problem:
        answer = problem.args[0].name()
    during = committed_rows()
    limit(2**63 - 1)
    raised = committed_rows()
    broker.terminate()
    broker.wait(60)
    broker = start()
    time.sleep(5)
    again = 0
    for _ in range(6):
        again = again or committed_rows()
finally:
    broker.terminate()
    broker.wait(60)

print(f"Kafka {version}: a commit with message.timestamp.before.max.ms=0: {answer}; rows that readers see: {during}; "
      f"after the limit was raised: {raised}; after a restart of the broker: {again}")
sys.exit(0 if (during, raised, again) == (0, 0, 1) else "the behaviour has changed")
PYTHON
for version in ${VERSIONS:-4.0.0 4.1.1 4.3.1 4.4.0}; do
  "$folder/venv/bin/python" "$folder/markers.py" "$folder" "$version"
done
