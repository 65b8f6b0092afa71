"""Parts of `kafka_exactly_once.py`: the process that is killed, and the reader that audits what it left."""
