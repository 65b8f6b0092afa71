"""The first transaction of a new user, in a log in a folder. Prints what it reads back."""

from __future__ import annotations

import sys

import oncelog


def main(folder: str) -> None:
    log = oncelog.open(folder)
    log.create_topic("greetings", partitions=1)
    with log.producer(transactional_id="greeter-0") as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send("greetings", key=b"en", value=b"hello")
    with log.consumer(isolation_level="read_committed") as consumer:
        partition = oncelog.TopicPartition("greetings", 0)
        consumer.assign([partition])
        consumer.seek(partition, 0)
        sys.stdout.write(f"{[record.value for record in consumer.poll(max_records=10)]}\n")
    log.close()


if __name__ == "__main__":
    main(sys.argv[1])
