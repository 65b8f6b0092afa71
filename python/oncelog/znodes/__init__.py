"""The znode store: ZooKeeper's data model behind `ports.ZnodeStore`, on several backends.

Read paths.py for what is stored where, transact.py and view.py for how it is written, memory.py for the rules of the
data model in their plainest form, and sqlite/ for the embedded store. Every backend passes the same contract tests.
"""

from __future__ import annotations
