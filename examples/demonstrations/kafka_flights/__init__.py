"""Parts of `kafka_exactly_once.py`.

query   the query itself
doors   how its process is started
doomed  how it is killed
audit   the reader that checks its output
"""
