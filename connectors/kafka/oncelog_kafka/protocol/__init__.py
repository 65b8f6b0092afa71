"""What the driver, the tasks, the ledger and the brokers have in common: names, values, and the rules that decide.

participants    a batch's transactions: their ids, and which of them can be committed
tokens          the metadata by which a transaction proves that it was committed
end_txn         what an answer to a commit means
kafka_rounds    a round of the ledger
extents         where the rows of decided batches are
entries         which records of a topic are entries of a command log
hanging         transactions that hold back readers for good
lost_ledger     what can be known without the ledger
ports           what the connector needs of the brokers
"""
