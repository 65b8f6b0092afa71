"""Where the exporter and the page listen, and which requests they answer there."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Final, NamedTuple

from oncelog.errors import UsageError

_HOST: Final = re.compile(r"(\[(?P<ipv6>[^\[\]]+)\]|(?P<name>[^:\[\]]+))(:[0-9]*)?")
"""The Host header of a request: a name or an address, with or without a port."""


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

    def admits(self, host: str) -> bool:
        """Whether a server that listens here may answer a request with this Host header.

        On loopback the header must name this machine. Otherwise a web page could point its own host name at 127.0.0.1
        and read the answers with the browser of somebody who works on this machine (DNS rebinding).
        """
        named = _HOST.fullmatch(host.lower())
        return not self.is_loopback or (named is not None and Address(named["ipv6"] or named["name"], 0).is_loopback)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


LOOPBACK: Final = Address("127.0.0.1", 0)
"""Any free port that only this machine reaches."""


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
