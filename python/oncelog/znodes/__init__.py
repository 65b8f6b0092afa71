"""The znode store: ZooKeeper's data model behind `ports.ZnodeStore`, on several backends.

Read paths.py for what is stored where, transact.py and view.py for how it is written, tree.py for the rules of the
data model in their plainest form, and sqlite/ for the embedded store. schemes.py is the registry, which stores of other
packages join. Every store passes the contract in oncelog.testing.znode_store_contract.
"""

from __future__ import annotations
