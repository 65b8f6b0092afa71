"""The znode store on a ZooKeeper ensemble; needs the extra ``oncelog[zookeeper]``.

From the bottom up: address (what the URL says), credentials (where its secrets are), failures (what each error of kazoo
means), handler and session (one connection), link (one session per process), store.
"""

from __future__ import annotations

from oncelog.znodes.zookeeper.store import ZookeeperZnodeStore

__all__ = ["ZookeeperZnodeStore"]
