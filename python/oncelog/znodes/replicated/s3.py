"""Metadata stores in a bucket: ``znodes="s3"`` next to the files of a log, ``znodes="s3://bucket/folder"`` elsewhere.

botocore finds credentials as the files' client does: in the environment, a profile, or the role of the machine. Each
process makes a client of its own, since none survives a fork.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from email.utils import parsedate_to_datetime
from functools import cache, partial
from typing import Any, Final

from oncelog import limits
from oncelog.buckets import ObjectPlace
from oncelog.errors import StoreAccessError, UsageError
from oncelog.extras import extras
from oncelog.ports import ZnodeStore
from oncelog.znodes.clock import SYSTEM_CLOCK, wall_ms
from oncelog.znodes.replicated.objects import SAVED_EVERY, Listed, NoAnswerError, ObjectLog, probe
from oncelog.znodes.replicated.store import ReplicatedZnodeStore

with extras("s3", part="oncelog.znodes.replicated.s3"):
    from botocore import exceptions as boto
    from botocore.config import Config
    from botocore.loaders import Loader, create_loader
    from botocore.session import Session

FOLDER: Final = "znodes"
"""The folder of a log's metadata, next to its files."""

REQUESTS_AT_ONCE: Final = 16

LOOK_MS: Final = 250
"""How often who waits looks for a new entry. Each look is a request: at this pace, some 4 dollars a month on AWS."""

_BUSY: Final = frozenset({408, 409, 425, 429})
"""Answers that say nothing but: not now. 409: another put of the same object is under way."""


def store(url: str, *, create: bool) -> ZnodeStore:
    """The store at a URL from `normalised`.

    Args:
        create: whether a store may begin there; then the bucket is tried out first.

    Raises:
        StoreUnavailableError, StoreAccessError.
    """
    if create:
        _try_out(url)
    return ReplicatedZnodeStore(
        partial(opened, url), saved_every=SAVED_EVERY, recent_ms=limits.RECENT_MS, look_ms=LOOK_MS
    )


def opened(url: str) -> ObjectLog:
    """The command log at a URL."""
    return ObjectLog(S3Bucket(ObjectPlace.parse(url)))


def normalised(url: str, root: str) -> str:
    """The URL of the objects. Raises as `schemes.Place.of`."""
    if url != "s3":
        return ObjectPlace.parse(url).url
    if not root.startswith("s3://"):
        raise UsageError(
            "znodes=s3 keeps the metadata next to the files of a log in a bucket; write znodes=s3://bucket/folder",
            path=root,
        )
    folder, query, options = ObjectPlace.parse(root).url.partition("?")
    return f"{folder.rstrip('/')}/{FOLDER}{query}{options}"


def _try_out(url: str) -> None:
    bucket = S3Bucket(ObjectPlace.parse(url))
    try:
        if ObjectLog(bucket).is_new():
            probe(bucket)
    finally:
        bucket.close()


@cache
def _service_models() -> Loader:
    """What botocore knows of S3. Read once in a process, it leaves 20 of the 140 ms of CPU that a client takes."""
    return create_loader()


class S3Bucket:
    """`objects.Bucket` on S3, and on what speaks its protocol."""

    def __init__(self, place: ObjectPlace) -> None:
        self._place = place
        self._bucket, _, folder = place.folder.partition("/")
        self._prefix = f"{folder}/" if folder else ""
        self._ahead_ms: int | None = None
        session = Session()
        session.register_component("data_loader", _service_models())
        self._client = session.create_client(
            "s3",
            endpoint_url=place.endpoint,
            region_name=place.region,
            verify=place.tls_ca,
            config=Config(
                connect_timeout=place.timeout_ms / 1000,
                read_timeout=place.timeout_ms / 1000,
                retries={"mode": "standard", "total_max_attempts": limits.OBJECT_STORE_ATTEMPTS},
                max_pool_connections=REQUESTS_AT_ONCE,
                s3={"addressing_style": "path" if place.endpoint else "auto"},  # as pyarrow does
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
            ),
        )

    def get(self, names: Sequence[str]) -> Sequence[bytes | None]:
        return self._each(self._got, names)

    def put_new(self, name: str, data: bytes) -> bool:
        answer = self._asked(self._client.put_object, Key=self._prefix + name, Body=data, IfNoneMatch="*")
        return answer is not None

    def names(self, folder: str, after: str = "") -> Iterator[Listed]:
        prefix = f"{self._prefix}{folder}/" if folder else self._prefix
        where = {"StartAfter": prefix + after}
        while True:
            page = self._asked(self._client.list_objects_v2, Prefix=prefix, **where) or {}
            for listed in page.get("Contents", ()):
                yield Listed(listed["Key"].removeprefix(prefix), int(listed["LastModified"].timestamp() * 1000))
            if not page.get("IsTruncated"):
                return
            where = {"ContinuationToken": page["NextContinuationToken"]}

    def delete(self, names: Sequence[str]) -> None:
        self._each(lambda name: self._asked(self._client.delete_object, Key=self._prefix + name), names)

    def now_ms(self) -> int:
        """The latest time that an answer had, and what passed since: behind the store's clock, and never ahead."""
        return wall_ms() if self._ahead_ms is None else SYSTEM_CLOCK.monotonic_ms() + self._ahead_ms

    def close(self) -> None:
        self._client.close()

    def _each(self, ask: Callable[[str], Any], names: Sequence[str]) -> list[Any]:
        if len(names) <= 1:
            return [ask(name) for name in names]
        with ThreadPoolExecutor(REQUESTS_AT_ONCE) as threads:  # of this call only: a fork must not meet any
            return list(threads.map(ask, names))

    def _got(self, name: str) -> bytes | None:
        def ask(**where: str) -> Any:
            answer = self._client.get_object(**where)
            return {**answer, "Body": answer["Body"].read()}

        answer = self._asked(ask, Key=self._prefix + name)
        return None if answer is None else answer["Body"]

    def _asked(self, ask: Callable[..., Any], **arguments: Any) -> Any:
        """The answer; None if the object is not there, or is there and must not be."""
        try:
            answer = ask(Bucket=self._bucket, **arguments)
        except boto.ClientError as refused:
            answer = refused.response
        except (boto.HTTPClientError, boto.ConnectionError, boto.IncompleteReadError) as problem:
            raise NoAnswerError("no answer", reason=str(problem)) from problem
        except boto.BotoCoreError as problem:
            raise self._refused(str(problem)) from problem
        self._read_clock(answer["ResponseMetadata"]["HTTPHeaders"].get("date"))
        if "Error" not in answer:
            return answer
        about, code = answer["ResponseMetadata"], answer["Error"].get("Code")
        status, reason = about["HTTPStatusCode"], f"{code}: {answer['Error'].get('Message')}"
        if status == 412 or (status == 404 and code != "NoSuchBucket"):
            return None
        if status in _BUSY or status >= 500 or about.get("RetryAttempts"):  # what an earlier try did is not known
            raise NoAnswerError("not now", reason=reason)
        raise self._refused(reason)

    def _refused(self, reason: str) -> StoreAccessError:
        return StoreAccessError(
            "the bucket refuses this process: check that it exists, and that the credentials "
            "may s3:GetObject, s3:PutObject, s3:DeleteObject and s3:ListBucket there",
            url=self._place.url,
            reason=reason,
        )

    def _read_clock(self, date: str | None) -> None:
        if date is not None:
            ahead_ms = int(parsedate_to_datetime(date).timestamp() * 1000) - SYSTEM_CLOCK.monotonic_ms()
            self._ahead_ms = ahead_ms if self._ahead_ms is None else max(ahead_ms, self._ahead_ms)
