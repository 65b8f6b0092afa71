"""Seeded runs of the Kafka sink's driver with simulated brokers: ``python -m oncelog_kafka.testing.simulation``."""
