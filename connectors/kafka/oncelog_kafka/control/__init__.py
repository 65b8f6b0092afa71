"""The Kafka brokers, as the driver asks them through Java's client, for settings that kafka-python cannot handle.

process     Java's client in a process of its own
requests    transactions, tokens, settings
partitions  entries of a command log
"""
