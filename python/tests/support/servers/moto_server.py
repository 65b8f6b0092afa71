"""moto's S3 server, with a lock round the requests that write.

moto looks for an object, and creates it later: of two puts that ask that there be none, both may win now and then. S3
lets one of them win.
"""

from __future__ import annotations

import threading
from typing import Any

from moto.s3.responses import S3Response
from moto.server import main

_put_object, _writing = S3Response.put_object, threading.Lock()


def _one_by_one(self: S3Response) -> Any:
    with _writing:
        return _put_object(self)


if __name__ == "__main__":
    S3Response.put_object = _one_by_one  # type: ignore[method-assign]
    main()
