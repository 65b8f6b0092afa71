#!/usr/bin/env bash
# kafka-python: describe_configs answers for a topic that does not exist as if it had no settings.
#
# One would guess: the broker answers UNKNOWN_TOPIC_OR_PARTITION, so describe_configs raises that error, as delete_topics does.
# What happens: the answer has an error code for each resource, and describe_configs does not look at it. It returns the
#   topic with an empty dict, which is also the answer for a topic whose settings all have their defaults.
# Whom it bites: programs that check a topic's settings: a misspelt name, or a topic that was deleted, reads as "all defaults".
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "kafka-python==3.0.12"

version=4.4.0
cat >"$folder/pom.xml" <<XML
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>x</groupId><artifactId>x</artifactId>
<version>0</version><packaging>pom</packaging><dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>$version</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>$version</version></dependency>
</dependencies></project>
XML
mvn -B -ntp -q -f "$folder/pom.xml" dependency:copy-dependencies -DoutputDirectory="$folder/jars" -DincludeScope=runtime

cat >"$folder/configs.py" <<'PYTHON'
import socket
import subprocess
import sys
import time
from pathlib import Path

import kafka
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewTopic

folder, version = Path(sys.argv[1]), sys.argv[2]


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


address, controller = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
java = ["java", "-Xmx384m", "-cp", f"{folder}/jars/*"]
settings = folder / "server.properties"
settings.write_text(f"""
process.roles=broker,controller
node.id=1
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
listeners=PLAINTEXT://{address},CONTROLLER://{controller}
advertised.listeners=PLAINTEXT://{address}
controller.quorum.voters=1@{controller}
log.dirs={folder}/data
""")
quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
format_it = ["kafka.tools.StorageTool", "format", "--cluster-id", "4L6g3nShT-eMCtK--X86sw", "--config", str(settings)]
subprocess.run([*java, *format_it], check=True, **quiet)


def connect():
    for _ in range(60):
        try:
            return KafkaAdminClient(bootstrap_servers=address)
        except Exception:
            time.sleep(1)
    sys.exit("the broker did not start")


def described(topic):
    try:
        return admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    except Exception as problem:
        return type(problem).__name__


def deleted(topic):
    try:
        return admin.delete_topics([topic])
    except Exception as problem:
        return type(problem).__name__


broker = subprocess.Popen([*java, "kafka.Kafka", str(settings)], **quiet)
try:
    admin = connect()
    admin.create_topics([NewTopic("orders", 1, 1)])
    found = described("orders"), described("bills"), deleted("bills")
    admin.close()
finally:
    broker.terminate()
    broker.wait(60)

print(f"kafka-python {kafka.__version__}, Kafka {version}: describe_configs of a topic with default settings: {found[0]}; "
      f"of one that does not exist: {found[1]}; delete_topics of one that does not exist: {found[2]}")
expected = {"topic": {"orders": {}}}, {"topic": {"bills": {}}}, "UnknownTopicOrPartitionError"
sys.exit(0 if found == expected else "the behaviour has changed")
PYTHON
"$folder/venv/bin/python" "$folder/configs.py" "$folder" "$version"
