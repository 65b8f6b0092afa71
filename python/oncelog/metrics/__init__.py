"""Metrics for Prometheus, of logs, ledgers and queries: what ``oncelog exporter`` and `oncelog.spark.observe` serve.

catalogue   every metric, as a table
reading     what was read at one moment
logs        reads a log
ledgers     reads the ledgers of a store
exposition  serves readings; the home of prometheus_client
"""
