"""Simulated Kafka brokers in memory, and seeded runs of the Kafka sink on them: ``python -m simulation.kafka``.

The brokers answer as real ones do, in virtual time, with faults on request.
"""
