"""What all sinks share, whatever they write to.

That is the options, the batch and its request to the ledger, the driver, and the function for ``foreachBatch``. A place
to write to is a `Target` (`target.py`); the embedded log's target is `spark/log_target.py`.
"""
