"""Where a server listens: what the exporter and the page are told."""

from __future__ import annotations

from ipaddress import ip_address
from typing import NamedTuple

from oncelog.errors import UsageError


class Address(NamedTuple):
    """Where a server listens. Port 0 is any free port."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        try:
            return self.host == "localhost" or ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """An address as users write it: ``127.0.0.1:9464``, ``[::1]:9464``.

    Raises:
        UsageError: it is not one.
    """
    host, colon, port = text.rpartition(":")
    is_number = port.isascii() and port.isdigit() and int(port) < 2**16
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not (colon and is_number and bare) or (":" in bare and bare == host):
        raise UsageError("not an address to listen on; write it like 127.0.0.1:9464 or [::1]:9464", listen=text)
    return Address(bare, int(port))
