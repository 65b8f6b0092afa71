"""Seeded runs of the Kafka sink's driver over simulated brokers: ``python -m oncelog_kafka.testing.simulation``."""
