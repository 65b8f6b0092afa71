"""Kafka brokers in memory, for tests of what is built on them: same answers, virtual time, faults on request."""
