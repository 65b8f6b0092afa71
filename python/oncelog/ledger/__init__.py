"""The ledger: which micro-batches of a query are decided. All targets use it.

`kinds.py` knows where ledgers are in the znodes, and reads and writes them with `payloads.py`. `batches.py` has the
steps of one batch: plan, renew, decide, abort, forget. The target knows what is in a batch and how it is written. Other
modules must not write a ledger's znode; the record in a round's znode also belongs to the target.
"""
