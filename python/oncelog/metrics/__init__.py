"""Metrics for Prometheus, of logs, ledgers and queries: what ``oncelog exporter`` and `oncelog.spark.observe` serve.

catalogue   every metric, as a table
alerts      what is wrong when a metric says so, and the page of the runbook
dashboards  a panel for every metric
reading     what was read at one moment
logs        reads a log
ledgers     reads the ledgers of a store
stores      what a process asks of znode stores
exposition  serves readings; the home of prometheus_client
"""
