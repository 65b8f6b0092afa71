"""What operators are told of the metadata: its size, and what is in it."""

from __future__ import annotations

import pytest

from oncelog.clients.metadata_report import DumpedZnode, ZnodeSize
from oncelog.errors import UsageError
from oncelog.runtime import Log
from oncelog.znodes import paths
from tests.support.log.logs import TOPIC, LogWorld, partition, send, started, tp, write_committed
from tests.support.log.rounds import GROUP, SOURCE, request, run_batch
from tests.unit.znodes.worlds import dump


@pytest.fixture
def filled(log: Log) -> Log:
    """With two topics, of which one was deleted, transactions, a sink and its group."""
    log.create_topic(SOURCE)
    log.create_topic("doomed")
    log.admin.delete_topic("doomed")
    write_committed(started(log), b"a", b"b")
    log.admin.alter_offsets("readers", {tp(): 1})
    run_batch(log, request(0, group_id=GROUP))
    return log


def expected_sizes(log: Log, folder: str) -> tuple[int, int]:
    found = [znode for path, znode in dump(log.services.store).items() if f"{path}/".startswith(f"{folder}/")]
    return len(found), sum(len(znode.data) for znode in found)


def test_every_znode_is_counted_once_in_its_part(filled: Log) -> None:
    found = filled.admin.measure_metadata()

    assert [one.topic for one in found.topics] == ["doomed", TOPIC, SOURCE]
    sizes = {paths.topic(one.topic): (one.znodes, one.size_bytes) for one in found.topics}
    sizes[paths.TRANSACTIONS] = (found.transactions.znodes, found.transactions.size_bytes)
    sizes[paths.GROUPS] = (found.groups.znodes, found.groups.size_bytes)
    sizes[paths.QUERIES] = (found.queries.znodes, found.queries.size_bytes)
    assert sizes == {folder: expected_sizes(filled, folder) for folder in sizes}
    everything = [len(znode.data) for znode in dump(filled.services.store).values()]
    assert found.total.znodes == len(everything) == found.other.znodes + sum(znodes for znodes, _ in sizes.values())
    assert found.total.size_bytes == sum(everything) == found.other.size_bytes + sum(size for _, size in sizes.values())


def test_the_largest_znodes_are_named_largest_first(filled: Log) -> None:
    sizes = sorted(((-len(znode.data), path) for path, znode in dump(filled.services.store).items()))

    for count in (0, 3, 10_000):
        found = filled.admin.measure_metadata(largest=count).largest
        assert list(found) == [ZnodeSize(path, -size) for size, path in sizes[:count]]


def test_the_size_of_a_topic_grows_by_what_is_appended_to_it(log: Log) -> None:
    before = log.admin.measure_metadata()
    with log.producer() as producer:
        send(producer, b"a")
    after = log.admin.measure_metadata()

    grown = after.topics[0].znodes - before.topics[0].znodes
    assert grown == 4, "a tail node and a producer's entry, and the folder of each"


def test_a_dump_shows_every_znode_with_its_decoded_data_its_version_and_its_times(filled: Log) -> None:
    store = filled.services.store
    found = {one.path: one for one in filled.admin.dump_metadata()}

    assert found.keys() == dump(store).keys()
    state = found[paths.partition(partition(filled))]
    znode = store.get(state.path)
    assert znode is not None
    assert (state.version, state.mzxid, state.modified_ms) == (
        znode.stat.version,
        znode.stat.mzxid,
        znode.stat.mtime_ms,
    )
    assert (state.data["version"], state.data["log_start"]) == (1, 0)
    assert found[paths.COMMITS].data is None


def test_a_dump_of_a_path_shows_what_is_at_it_and_below_it(filled: Log) -> None:
    found = [one.path for one in filled.admin.dump_metadata("/groups/readers")]

    where = partition(filled)
    assert found[0] == "/groups/readers"
    assert found[-1] == paths.group_partition("readers", where)
    assert all(path.startswith("/groups/readers") for path in found)


def test_a_dump_shows_bytes_that_are_no_json_as_they_are(world: LogWorld) -> None:
    world.is_checked = False
    world.log.services.store.transact(lambda view: view.create("/odd", b"\xff{"))

    (found,) = world.log.admin.dump_metadata("/odd")

    assert isinstance(found, DumpedZnode)
    assert found.data == b"\xff{"


@pytest.mark.parametrize("path", ["/topics/nothing", "topics", "/topics/", "//", "/topics/../groups", "", "/\x00"])
def test_a_dump_of_what_is_no_znode_is_refused_before_anything_is_shown(log: Log, path: str) -> None:
    with pytest.raises(UsageError):
        log.admin.dump_metadata(path)
