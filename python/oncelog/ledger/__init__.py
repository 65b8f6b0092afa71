"""The batch ledger: which micro-batches of a query are decided. One floor for every place that batches are written to.

`kinds.py` knows where ledgers are in the znodes and reads them, by `payloads.py`; `batches.py` takes the steps of one
batch: plan, renew, decide, abort, forget. What a batch holds and how it is written is the target's. Nobody else reads
or writes these znodes.
"""
