"""What every sink shares, wherever it writes.

Options, the batch and its request to the ledger, the driver, and the function for ``foreachBatch``. A place to write to
is a `Target` (`target.py`); the embedded log's is `spark/log_target.py`.
"""
