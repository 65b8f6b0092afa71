"""A producer and a consumer without Spark: transactions, a consumer group, and offsets that commit with the records.

python examples/producer_and_consumer.py [FOLDER]
"""

from __future__ import annotations

import sys
import tempfile

import oncelog

folder = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="oncelog-")

with oncelog.open(f"{folder}/log") as log:
    if not log.admin.list_topics():
        log.create_topic("orders", partitions=2)
        log.create_topic("invoices", partitions=2)

    with log.producer(transactional_id="shop") as producer:
        producer.init_transactions()  # fences older producers with this id
        with producer.transaction():
            producer.send("orders", key=b"ann", value=b"3 apples")
            producer.send("orders", key=b"bob", value=b"1 pear")
        try:
            with producer.transaction():
                producer.send("orders", key=b"eve", value=b"everything")
                raise ValueError("the payment failed")
        except ValueError as error:
            print(f"Aborted: {error}")

    # Reads, writes and commits its position in one transaction: a crash at any line repeats nothing.
    with (
        log.consumer(group_id="billing", auto_offset_reset="earliest") as consumer,
        log.producer(transactional_id="billing") as producer,
    ):
        producer.init_transactions()
        consumer.subscribe(["orders"])
        while orders := consumer.poll(timeout_ms=1000):
            with producer.transaction():
                for order in orders:
                    producer.send("invoices", key=order.key, value=b"an invoice for " + (order.value or b""))
                positions = {partition: consumer.position(partition) for partition in consumer.assignment()}
                producer.send_offsets_to_transaction(positions, "billing")

    with log.consumer(auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["invoices"])
        for invoice in consumer.poll(timeout_ms=1000):
            print(f"{(invoice.key or b'').decode()}: {(invoice.value or b'').decode()}")
