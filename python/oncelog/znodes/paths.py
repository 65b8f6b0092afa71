"""All znode paths, and the form of all payloads: a compact JSON object with a "version".

    /format                                      cluster id, layout version
    /clock                                       set to read the store's time
    /commits                                     set by every deciding write (protocol/visibility.py)
    /producer_ids                                the next block of producer ids
    /files/generation                            the collection generation (log/generations.py)
    /files/candidates                            unreferenced files, and when they were found (log/collection.py)
    /files/candidates/<part>                     more of them
    /files/holds/<id>                            a write that holds the generation (log/generations.py)
    /topics/<t>                                  topic id, partitions, configuration
    /topics/<t>/<topic id>/<p>                   PartitionState
    /topics/<t>/<topic id>/<p>/producers/<pid>   ProducerEntry
    /topics/<t>/<topic id>/<p>/tail/<offset>     TailNode, offset zero-padded so that names sort
    /transactions/<id>                           TransactionMetadata
    /transactions/<id>/<pid>.<epoch>             owner of one transaction
    /groups/<g>                                  group; its version orders the group's commits
    /groups/<g>/<t>/<topic id>/<p>               GroupPartitionState
    /queries/<prefix>                            QueryLedger
    /queries/<prefix>/rounds/<n>                 owner of one round of a micro-batch
    /<target>/<prefix>, .../rounds/<n>           the same for a sink into another target
    /<target>/<prefix>/given-up/<n>              what an operator gave up of a decided round

Names that users choose (transactional ids, groups, prefixes) are percent-encoded, except for ASCII letters, digits and
``-._~``. Reading never guesses: a payload that cannot be parsed is a CorruptDataError with the path.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache
from hashlib import sha256
from typing import Any, TypeVar
from urllib.parse import quote, unquote

from oncelog.errors import CorruptDataError, InvariantViolation, UnsupportedFormatError
from oncelog.strict_json import without_duplicates
from oncelog.types import ProducerIdAndEpoch, TopicIdPartition

T = TypeVar("T")

PAYLOAD_VERSION = 1

FORMAT = "/format"
CLOCK = "/clock"
COMMITS = "/commits"
PRODUCER_IDS = "/producer_ids"
GENERATION = "/files/generation"
CANDIDATES = "/files/candidates"
HOLDS = "/files/holds"
TOPICS = "/topics"
TRANSACTIONS = "/transactions"
GROUPS = "/groups"
QUERIES = "/queries"

FOLDERS = (TOPICS, TRANSACTIONS, GROUPS, QUERIES)
"""Folders whose znodes have users' names."""


@lru_cache(maxsize=4096)
def segment(name: str) -> str:
    """A user's name as one path segment."""
    encoded = quote(name, safe="")
    return encoded.replace(".", "%2E") if set(encoded) <= {"."} else encoded


_NUMBER = re.compile("0|[1-9][0-9]{0,18}")


def is_number(path_segment: str) -> bool:
    """Whether a segment is a number as oncelog writes it. Python's `int` also accepts `٣`, `007` and `1_0`."""
    return _NUMBER.fullmatch(path_segment) is not None


def name_of(path_segment: str) -> str:
    """The user's name that `segment` encoded."""
    return unquote(path_segment)


def named(folder: str, name: str) -> str:
    """The znode of a user's name in a folder."""
    return f"{folder}/{segment(name)}"


def name_at(path: str) -> str:
    """The user's name of a znode in a folder."""
    return name_of(path.rpartition("/")[2])


def folder_of(path: str) -> str:
    """The top-level folder that a znode is in, or that it is."""
    return f"/{path.split('/', 2)[1]}"


def topic_of(path: str) -> str | None:
    """The name of the topic that a znode belongs to, if any."""
    return name_of(path.split("/", 3)[2]) if path.startswith(f"{TOPICS}/") else None


def candidates_part(name: str) -> str:
    return f"{CANDIDATES}/{name}"


def hold(stream: str, nonce: str) -> str:
    """A hold of one write of a stream. The holds of one stream have different nonces."""
    return f"{HOLDS}/{sha256(stream.encode()).hexdigest()[:16]}.{nonce}"


def is_of_one_stream(one: str, other: str) -> bool:
    """Whether two holds are of the same stream."""
    return one.partition(".")[0] == other.partition(".")[0]


def topic(name: str) -> str:
    return named(TOPICS, name)


def partition(tip: TopicIdPartition) -> str:
    return f"{TOPICS}/{segment(tip.topic)}/{tip.topic_id}/{tip.partition}"


def is_partition(path: str) -> bool:
    """Whether this is the path of a partition's znode, if it is a path in a valid tree."""
    return folder_of(path) == TOPICS and path.count("/") == 4


def partition_of(path: str) -> TopicIdPartition:
    """The partition whose znode is at `path`."""
    parts = path.split("/")
    if len(parts) != 5 or parts[:2] != TOPICS.split("/") or not is_number(parts[4]):
        raise CorruptDataError("not the path of a partition", path=path)
    found = TopicIdPartition(name_of(parts[2]), parts[3], int(parts[4]))
    _check_canonical(segment(found.topic) == parts[2] and parts[2] and parts[3], path)
    return found


def tail(tip: TopicIdPartition) -> str:
    return f"{partition(tip)}/tail"


def tail_node(tip: TopicIdPartition, base_offset: int) -> str:
    return f"{tail(tip)}/{tail_name(base_offset)}"


def tail_name(base_offset: int) -> str:
    """The last segment of a tail node's path. Names sort like their offsets."""
    return f"{base_offset:019d}"


def producers(tip: TopicIdPartition) -> str:
    return f"{partition(tip)}/producers"


def producer(tip: TopicIdPartition, producer_id: int) -> str:
    return f"{partition(tip)}/producers/{producer_id}"


def transaction(transactional_id: str) -> str:
    return named(TRANSACTIONS, transactional_id)


def transaction_owner(transactional_id: str, producer_id: int, epoch: int) -> str:
    return f"{transaction(transactional_id)}/{producer_id}.{epoch}"


def group(group_id: str) -> str:
    return named(GROUPS, group_id)


def is_group(path: str) -> bool:
    """Whether this is the path of a group's znode, if it is a path in a valid tree."""
    return folder_of(path) == GROUPS and path.count("/") == 2


def group_partition(group_id: str, tip: TopicIdPartition) -> str:
    return f"{group(group_id)}/{segment(tip.topic)}/{tip.topic_id}/{tip.partition}"


def is_group_partition(path: str) -> bool:
    """Whether this is the path of a group's offset for a partition, if it is a path in a valid tree."""
    return folder_of(path) == GROUPS and path.count("/") == 5


def group_partition_of(path: str) -> tuple[str, TopicIdPartition]:
    """The group id and the partition of a group's offset at `path`."""
    parts = path.split("/")
    if len(parts) != 6 or parts[:2] != GROUPS.split("/") or not is_number(parts[5]):
        raise CorruptDataError("not the path of a group's partition", path=path)
    group_id, found = name_of(parts[2]), TopicIdPartition(name_of(parts[3]), parts[4], int(parts[5]))
    _check_canonical(segment(group_id) == parts[2] and segment(found.topic) == parts[3] and parts[3] and parts[4], path)
    return group_id, found


def rounds_of(ledger: str) -> str:
    """The folder of a ledger's rounds."""
    return f"{ledger}/rounds"


def given_up_of(ledger: str) -> str:
    """The folder of what was given up of a ledger's rounds."""
    return f"{ledger}/given-up"


def _check_canonical(is_so: object, path: str) -> None:
    """Of several encodings of a name, only one is the path of its znode."""
    if not is_so:
        raise CorruptDataError("a path with an encoding that oncelog does not use", path=path)


def is_round(owner: str) -> bool:
    """Whether an owner is a micro-batch's round, and not a producer's transaction."""
    return owner.startswith(f"{QUERIES}/")


def round_of(owner: str) -> tuple[str, int]:
    """The prefix and the number in a round's path."""
    parts = owner.split("/")
    if len(parts) != 5 or parts[:2] != QUERIES.split("/") or parts[3] != "rounds" or not is_number(parts[4]):
        raise CorruptDataError("not the path of a round", path=owner)
    return name_of(parts[2]), int(parts[4])


def producer_of(owner: str) -> ProducerIdAndEpoch:
    """The (producer id, epoch) in the path of a transaction's owner."""
    parts = owner.split("/")
    producer_id, _, epoch = parts[-1].partition(".")
    if len(parts) != 4 or parts[:2] != TRANSACTIONS.split("/") or not (is_number(producer_id) and is_number(epoch)):
        raise CorruptDataError("not the path of a transaction's owner", path=owner)
    return ProducerIdAndEpoch(int(producer_id), int(epoch))


def transactional_id_of(path: str) -> str:
    """The transactional id in the path of its metadata, or of one of its owners."""
    parts = path.split("/")
    if len(parts) not in (3, 4) or parts[:2] != TRANSACTIONS.split("/"):
        raise CorruptDataError("not the path of a transaction", path=path)
    return name_of(parts[2])


def encode(payload: dict[str, Any]) -> bytes:
    """The stored form of a payload."""
    return _ENCODER.encode({"version": PAYLOAD_VERSION, **payload}).encode()


_ENCODER = json.JSONEncoder(separators=(",", ":"))


_NO_PAYLOAD = (
    ValueError,
    KeyError,
    TypeError,
    IndexError,
    AttributeError,
    OverflowError,  # an infinite number
    RecursionError,  # deeper than any payload
    InvariantViolation,  # an impossible value
    CorruptDataError,  # a wrong path within the payload; the error must name the znode's own path
)
"""What reading raises if the data is not a payload of oncelog."""


def decode(path: str, data: bytes, build: Callable[[dict[str, Any]], T]) -> T:
    """Decode a payload.

    Args:
        path: of the znode, for errors.
        build: makes the value from the JSON object; the errors that it raises become a CorruptDataError.

    Raises:
        CorruptDataError: the data is not what oncelog writes there.
        UnsupportedFormatError: a newer oncelog wrote it.
    """
    try:
        payload = _JSON.decode(data.decode())
        version = payload["version"]
        if type(version) is not int or version < 1:
            raise ValueError("not a version")
    except _NO_PAYLOAD as error:
        raise CorruptDataError("a znode does not hold what oncelog writes there", path=path) from error
    if version != PAYLOAD_VERSION:
        raise UnsupportedFormatError(
            "a newer oncelog wrote this znode; upgrade oncelog", path=path, found=version, known=PAYLOAD_VERSION
        )
    try:
        return build(payload)
    except _NO_PAYLOAD as error:
        raise CorruptDataError("a znode does not hold what oncelog writes there", path=path) from error


_JSON = json.JSONDecoder(object_pairs_hook=without_duplicates)
