"""The examples on Kafka run as they stand, twice: the second time they copy only what is new."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.docs.examples import run_here
from tests.support.servers.kafka import KafkaBroker, fresh_name, read_topic, require_shims, send
