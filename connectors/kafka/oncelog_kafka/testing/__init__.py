"""Simulated Kafka brokers in memory, for tests: the answers of real brokers, virtual time, and faults on request."""
