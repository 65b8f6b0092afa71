"""Which host this is, and on what kind of file system a path lies: what the embedded store must know to be safe.

SQLite's locks and shared memory work among the processes of one kernel. Two hosts on one file would destroy it, so the
store records its host and refuses others, and refuses file systems that several hosts mount.

The same host is one with the same boot id or the same host id:
- The kernel's boot id is the same in every container on the machine, and changes with each boot. Equal boot ids mean
one kernel, hence safe, whatever a container's name is; this is why a container may be recreated at will.
- After a boot the host id must be known: ``ONCELOG_HOST_ID`` if set, else the machine id, else the host's name. A
machine id is absent or empty in most container images, and Docker invents a new name for each container; hence
containers without one set ``ONCELOG_HOST_ID``, mount the host's /etc/machine-id, or let the store be adopted after a
boot. A machine id baked into an image is the same on every host that runs it and tells nothing apart; what protects
then is that network file systems are refused.
"""

from __future__ import annotations

import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path

HOST_ID_VARIABLE = "ONCELOG_HOST_ID"

MACHINE_ID = Path("/etc/machine-id")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
MOUNTS = Path("/proc/self/mountinfo")

_NETWORK_TYPES = frozenset({
    "9p", "acfs", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "fhgfs", "gfs", "gfs2", "glusterfs", "gpfs",
    "kafs", "lustre", "mfs", "moosefs", "ncpfs", "nfs", "nfs3", "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2",
    "quobyte", "smb2", "smb3", "smbfs", "vboxsf", "vmhgfs", "wekafs",
})  # fmt: skip

_LOCAL_FUSE_TYPES = frozenset({
    "fuse.bindfs", "fuse.encfs", "fuse.fuse-overlayfs", "fuse.gocryptfs", "fuse.lxcfs", "fuse.mergerfs",
    "fuse.ntfs-3g",
})  # fmt: skip
"""Any other kind of FUSE is taken for remote: most are (sshfs, s3fs, gcsfuse, rclone, juicefs ...)."""


@dataclass(frozen=True, slots=True)
class HostIdentity:
    """What tells hosts apart. `hostname` is for people only."""

    host_id: str
    boot_id: str
    hostname: str

    @classmethod
    def here(cls, host_id: str | None = None) -> HostIdentity:
        """This host.

        Args:
            host_id: overrides what the machine says; so does the environment variable ``ONCELOG_HOST_ID``.
        """
        hostname = platform.node()
        chosen = host_id or os.environ.get(HOST_ID_VARIABLE)
        return cls(f"set:{chosen}" if chosen else _machine_id() or f"name:{hostname}", _text_of(BOOT_ID), hostname)

    def is_same_host(self, other: HostIdentity) -> bool:
        return (self.boot_id != "" and self.boot_id == other.boot_id) or self.host_id == other.host_id


@dataclass(frozen=True, slots=True)
class Mount:
    """A mounted file system."""

    point: str
    kind: str

    @property
    def is_network(self) -> bool:
        is_remote_fuse = self.kind == "fuse" or (self.kind.startswith("fuse.") and self.kind not in _LOCAL_FUSE_TYPES)
        return self.kind in _NETWORK_TYPES or is_remote_fuse

    def __str__(self) -> str:
        return f"{self.point} ({self.kind})"


def mount_of(path: Path) -> Mount:
    """The file system on which `path` is, or would be created. Of unknown kind where the system does not tell."""
    resolved = path.resolve()
    found = Mount("/", "unknown")
    for line in _text_of(MOUNTS).splitlines():
        # 36 35 98:0 /root-of-mount /mount/point options [optional fields] - type source options   (proc(5))
        place, _, source = line.partition(" - ")
        mount = Mount(_unescaped(place.split(" ")[4]), source.split(" ")[0])
        # A later line covers an earlier one on the same point.
        if resolved.is_relative_to(mount.point) and len(mount.point) >= len(found.point):
            found = mount
    return found


def _machine_id() -> str:
    text = _text_of(MACHINE_ID)
    return f"machine:{text}" if re.fullmatch(r"[0-9a-f]{32}", text) else ""


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape").strip()
    except OSError:
        return ""


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
