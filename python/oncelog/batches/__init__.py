"""Write this micro-batch once, wherever its rows go.

A query gives a batch to a sink. The sink's *ledger*, a few znodes in any store, records which batches are decided.

rules         pure: what a ledger answers to a request for a batch
ledger        where ledgers are in the znodes, and how they are read; with payloads
steps         plan, renew, decide, abort, forget: each is one compare-and-set in the store; with former_names
attempt       what a target must do at each phase of an attempt
run           takes a batch through the phases of its targets, all under one decision; transaction runs their steps
committer     what a store must do that can stage rows invisibly; committables: its target and attempts
two_functions the target of a store that cannot
offsets       source offsets that are committed to a consumer group with a batch
giving_up     what an operator gave up of a decided batch
overview      what the ledgers of a store contain, for people

It knows neither Spark, nor the log, nor any connector. Other modules must not write a ledger's znode; the record in a
round's znode also belongs to the target.
"""
