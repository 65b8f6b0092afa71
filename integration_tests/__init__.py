"""Tests of logs whose servers run in containers: ZooKeeper, alone and as an ensemble, and an object store."""
