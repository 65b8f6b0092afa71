"""The commands `checkpoint` on folders in a bucket, as they are on folders of this machine."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import oncelog
from oncelog import limits
from oncelog.checkpoints.storage import storage_of
from oncelog.crash_points import CrashPoint
from oncelog.testing.faults import killing_at
from tests.support.log.checkpoints import QUERY, HandmadeCheckpoint, opened_round, plan_next, write_numbers
from tests.support.log.logs import TOPIC
from tests.support.log.shell import Shell, finished, started_command
from tests.support.servers.s3 import BUCKET, S3Server

pytestmark = pytest.mark.slow


@pytest.fixture
def new(bucket: S3Server) -> str:
    return bucket.url()


@pytest.fixture
def kept(made: HandmadeCheckpoint, bucket: S3Server) -> str:
    """The same checkpoint in the bucket, by the name that Spark's users give it, with a folder's own object."""
    url = bucket.url().replace("s3://", "s3a://")
    with storage_of(url).made() as folder:
        folder.put("state/", b"")
        for name, text in made.texts().items():
            folder.put(name, text.encode())
        folder.put("state/0/0/1.delta", b"\xff\x00")
    made.write("state/0/0/1.delta", "").write_bytes(b"\xff\x00")
    return url


def objects(url: str) -> dict[str, bytes | None]:
    storage = storage_of(url)
    names = sorted(storage.times())
    return dict(zip(names, storage.read(names), strict=True))


def files(made: HandmadeCheckpoint) -> dict[str, bytes]:
    return {str(one.relative_to(made.root)): one.read_bytes() for one in made.root.rglob("*") if one.is_file()}


def test_what_is_shown_and_found_is_the_same(
    shell: Shell, log: oncelog.Log, made: HandmadeCheckpoint, kept: str
) -> None:
    def shown(location: str) -> dict[str, object]:
        document = shell.json("checkpoint", "show", location)
        for name in ("folder", "newest_file_age_ms"):
            del document["checkpoint"][name]
        return document

    assert shown(kept) == shown(str(made.root))
    assert shell.json("checkpoint", "verify", kept)["fits"] is True
    log.admin.delete_topic(TOPIC)
    assert [one["problem"] for one in shell.json("checkpoint", "verify", kept, exit_code=1)["findings"]] == [
        one["problem"] for one in shell.json("checkpoint", "verify", str(made.root), exit_code=1)["findings"]
    ]


@pytest.mark.usefixtures("log")
def test_a_copy_has_every_file_as_it_is_wherever_it_comes_from_and_goes(
    shell: Shell, made: HandmadeCheckpoint, kept: str, bucket: S3Server, tmp_path: Path
) -> None:
    up, down, across = bucket.url(), str(tmp_path / "down"), bucket.url()

    for source, target in ((kept, across), (across, down), (down, up)):
        done = shell.json("checkpoint", "move", source, target)["written"]
        assert (done["folder"], done["query_id"]) == (target, QUERY)
        assert shell.json("checkpoint", "verify", target)["fits"] is True

    assert objects(up) == objects(across) == files(made) == files(HandmadeCheckpoint(Path(down)))


def test_the_next_batch_begins_in_a_topic_that_was_created_again(
    shell: Shell, log: oncelog.Log, made: HandmadeCheckpoint, bucket: S3Server, new: str
) -> None:
    plan_next(log, made)
    opened_round(log, made, 2, "run-2").decide()
    url = bucket.url()
    shell.json("checkpoint", "move", str(made.root), url)
    log.admin.delete_topic(TOPIC)
    log.create_topic(TOPIC, partitions=2)
    write_numbers(log, count=2)

    done = shell.json("checkpoint", "rebase", url, new, "--topic", TOPIC)["written"]

    assert (done["next_batch"], done["committed_batch"]) == (3, 2)
    assert shell.json("checkpoint", "verify", new)["fits"] is True
    found = objects(new)
    assert found["commits/2"] == made.texts()["commits/1"].encode(), "the watermark is the one before"
    assert b'{"0":0,"1":0}' in (found["offsets/2"] or b"").replace(b" ", b"")


def test_a_folder_that_exists_or_lies_in_the_old_one_is_refused(shell: Shell, kept: str, new: str) -> None:
    folder, question, options = kept.partition("?")
    inner, beside = f"{folder}/inner{question}{options}", f"{folder}-2{question}{options}"
    with storage_of(new).made() as made:
        made.put("notes", b"")

    assert "exists already" in shell.refused("checkpoint", "move", kept, new, exit_code=2)
    assert "outside of the old one" in shell.refused("checkpoint", "move", kept, inner, exit_code=2)
    assert objects(new) == {"notes": b""}
    shell.json("checkpoint", "move", kept, beside)


@pytest.mark.slow
@pytest.mark.usefixtures("log")
def test_a_copy_that_is_killed_is_no_checkpoint_and_can_be_made_elsewhere(
    shell: Shell, made: HandmadeCheckpoint, kept: str, new: str, bucket: S3Server, tmp_path: Path
) -> None:
    fault = killing_at(CrashPoint.CHECKPOINT_COPIED, tmp_path / "mark")

    code, _, _ = finished(started_command("checkpoint", "move", kept, new, env={**os.environ, **fault}))

    assert code == -signal.SIGKILL
    assert "metadata" not in objects(new)
    assert [one["problem"] for one in shell.json("checkpoint", "verify", new, exit_code=1)["findings"]] == [
        "damaged file"
    ]
    assert "exists already" in shell.refused("checkpoint", "move", kept, new, exit_code=2)
    again = bucket.url()
    assert finished(started_command("checkpoint", "move", kept, again))[0] == 0
    assert objects(again) == files(made)


@pytest.mark.slow
@pytest.mark.usefixtures("log")
def test_of_two_copies_into_one_folder_at_most_one_is_whole(made: HandmadeCheckpoint, kept: str, new: str) -> None:
    both = [started_command("checkpoint", "move", kept, new) for _ in range(2)]
    ended = [finished(one) for one in both]

    assert {code for code, _, _ in ended} <= {0, 2}
    assert any("exists already" in said for code, _, said in ended if code == 2)
    found = objects(new)
    if any(code == 0 for code, _, _ in ended):
        assert found == files(made)
    else:
        assert found == {}


@pytest.mark.parametrize(
    ("change", "exit_code", "said"),
    [
        ((BUCKET, "no-such-bucket"), 4, "check that it exists"),
        (("region=us-east-1", "regions=us-east-1"), 2, "did_you_mean='region'"),
        (("endpoint=http://127.0.0.1:", "timeout_ms=1000&endpoint=http://127.0.0.2:"), 3, "does not answer"),
    ],
)
def test_a_bucket_that_cannot_be_used_is_an_error_of_one_line(
    shell: Shell, kept: str, change: tuple[str, str], exit_code: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "OBJECT_STORE_ATTEMPTS", 1)
    wrong = kept.replace(*change)

    for words in (("show", wrong), ("move", kept, wrong), ("move", wrong, kept)):
        assert said in shell.refused("checkpoint", *words, exit_code=exit_code)
