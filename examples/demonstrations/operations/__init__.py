"""Failures, what tells of them and what mends them: the parts of failures_and_alerts.py.

place       a log with its traffic, its queries, and what watches them
failures    what breaks, and what its page of the runbook tells an operator to do
query       the queries, as a program of its own that can be killed
prometheus  a Prometheus of this machine, and alerts without their patience
pages       what the pages of the exporters say, where there is no Prometheus
audit       what was written is there once
"""
