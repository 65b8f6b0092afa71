"""The znode store: ZooKeeper's data model, with several backends behind `ports.ZnodeStore`.

paths.py says what is stored where, transact.py and view.py how it is written, and tree.py has the rules of the data
model in their simplest form. sqlite/ is the embedded store. Stores of other packages register in schemes.py. Every
store passes the contract in oncelog.testing.znode_store_contract.
"""

from __future__ import annotations
