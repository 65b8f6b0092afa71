"""The znode store on a ZooKeeper ensemble; needs the extra ``oncelog[zookeeper]``.

Its modules, from the bottom up: address (the URL), credentials (the place of the secrets), failures (the meaning of
kazoo's errors), reads (many by one request), handler and session (one connection), link (one session per process),
store.
"""

from __future__ import annotations

from oncelog.znodes.zookeeper.store import ZookeeperZnodeStore

__all__ = ["ZookeeperZnodeStore"]
