"""Where decisions are kept: a topic of the cluster, or any store of znodes.

ledger          the steps of one batch
ledger_store    opens the store
ledger_topic    creates and checks the topic; partition_log reads and appends its records
"""
