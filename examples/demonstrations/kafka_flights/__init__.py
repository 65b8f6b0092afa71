"""Parts of `kafka_exactly_once.py`.

query   the text that is run
doors   how its process is started
doomed  how it is killed
audit   the reader that judges what it left
"""
