"""Identifies this host, and the kind of file system of a path. The embedded store needs both to be safe.

SQLite's locks and shared memory work between the processes of one kernel. Two hosts would destroy a file that they use
at the same time. So the store records its host and refuses others, and refuses network file systems.

Two hosts are the same if they have the same boot id or the same host id:
- The kernel's boot id is the same in all containers on a machine, and changes with each boot. Equal boot ids mean one
kernel, which is safe, whatever the containers' names are. So containers may be recreated at any time.
- After a boot the host id counts: ``ONCELOG_HOST_ID`` if it is set, else the machine id, else the host's name. Most
container images have no machine id or an empty one, and Docker gives each container a new name. So containers without a
machine id must set ``ONCELOG_HOST_ID``, mount the host's /etc/machine-id, or adopt the store after each boot. A machine
id that is part of an image is the same on all hosts and distinguishes nothing; then only the refusal of network file
systems protects the file.
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
"""All other kinds of FUSE count as remote, since most are (sshfs, s3fs, gcsfuse, rclone, juicefs ...)."""


@dataclass(frozen=True, slots=True)
class HostIdentity:
    """Identifies a host. `hostname` is only for people."""

    host_id: str
    boot_id: str
    hostname: str

    @classmethod
    def here(cls, host_id: str | None = None) -> HostIdentity:
        """This host. `host_id`, or else the environment variable ``ONCELOG_HOST_ID``, overrides the machine's id."""
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
    """The file system on which `path` is, or would be created. Its kind is "unknown" if the system does not tell."""
    resolved = f"{path.resolve()}/"
    found = Mount("/", "unknown")
    for line in _text_of(MOUNTS).splitlines():
        # 36 35 98:0 /root-of-mount /mount/point options [optional fields] - type source options   (proc(5))
        place, _, source = line.partition(" - ")
        mount = Mount(_unescaped(place.split(" ")[4]), source.split(" ")[0])
        # A later line hides an earlier one at the same mount point.
        if resolved.startswith(f"{mount.point.rstrip('/')}/") and len(mount.point) >= len(found.point):
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
