"""The commands `checkpoint move` and `rebase`: what the new checkpoint says, and what is refused."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

import oncelog
from oncelog.checkpoints import folder
from oncelog.crash_points import CrashPoint
from oncelog.testing.faults import killing_at
from tests.support.log.checkpoints import (
    QUERY,
    HandmadeCheckpoint,
    at,
    opened_round,
    plan_next,
    texts_in,
    write_numbers,
)
from tests.support.log.logs import TOPIC
from tests.support.log.shell import Shell, finished, started_command


def topics_in(file: Path) -> dict[str, dict[str, int]]:
    topics = json.loads(file.read_text().splitlines()[-1])["topics"]
    return {name: topic["offsets"] for name, topic in topics.items()}


def create_again(log: oncelog.Log, *, count: int = 2) -> None:
    log.admin.delete_topic(TOPIC)
    log.create_topic(TOPIC, partitions=2)
    write_numbers(log, count=count)


@pytest.fixture
def new(tmp_path: Path) -> Path:
    return tmp_path / "new"


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """Another log, whose topic has the same records; it has no ledger."""
    with oncelog.open(tmp_path / "other") as opened:
        opened.create_topic(TOPIC, partitions=2)
        write_numbers(opened)
    return tmp_path / "other"


# move -----------------------------------------------------------------------------------------------------------------


def moved(shell: Shell, made: HandmadeCheckpoint, new: Path, *options: str) -> dict[str, Any]:
    before = made.texts()
    done = shell.json("checkpoint", "move", str(made.root), str(new), *options)["written"]
    assert made.texts() == before, "the old checkpoint was changed"
    assert folder.read(str(new)).query_id == QUERY
    assert isinstance(done, dict)
    return done


def not_moved(shell: Shell, made: HandmadeCheckpoint, new: Path, *options: str) -> str:
    said = shell.refused("checkpoint", "move", str(made.root), str(new), *options, exit_code=2)
    assert not new.exists()
    return said


def test_a_copy_has_every_file_as_it_is(shell: Shell, made: HandmadeCheckpoint, tmp_path: Path) -> None:
    made.write("state/0/0/1.delta", "state")

    done = moved(shell, made, tmp_path / "a" / "b")

    assert texts_in(tmp_path / "a" / "b") == made.texts()
    assert (done["next_batch"], done["changed"], done["operators"]) == (2, [], ["0"])


def test_a_copy_has_what_links_lead_to(shell: Shell, made: HandmadeCheckpoint, new: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "large-disk"
    (elsewhere / "state/0/0").mkdir(parents=True)
    (elsewhere / "state/0/0/1.delta").write_text("state")
    (made.root / "state").symlink_to(elsewhere / "state")
    (elsewhere / "metadata").write_text((made.root / "metadata").read_text())
    (made.root / "metadata").unlink()
    (made.root / "metadata").symlink_to(elsewhere / "metadata")

    done = moved(shell, made, new)

    assert (new / "state/0/0/1.delta").read_text() == "state"
    assert done["operators"] == ["0"]
    assert not any(path.is_symlink() for path in (new, *new.rglob("*")))


def test_a_decided_batch_with_state_behind_a_link_is_not_committed_by_hand(
    shell: Shell, log: oncelog.Log, made: HandmadeCheckpoint, new: Path, other: Path, tmp_path: Path
) -> None:
    plan_next(log, made)
    opened_round(log, made, 2, "run-2").decide()
    (tmp_path / "state/0/0").mkdir(parents=True)
    (tmp_path / "state/0/0/1.delta").write_text("state")
    (made.root / "state").symlink_to(tmp_path / "state")

    assert "start the query once on the old checkpoint" in not_moved(shell, made, new, "--to-path", str(other))


@pytest.mark.parametrize("target", ["nothing-there", ".", ".."])
def test_a_link_that_leads_nowhere_or_to_a_folder_above_is_refused(
    shell: Shell, made: HandmadeCheckpoint, new: Path, target: str
) -> None:
    (made.root / "state").mkdir(exist_ok=True)
    (made.root / "state" / "0").symlink_to(target)

    assert "the checkpoint cannot be read" in not_moved(shell, made, new)


def test_a_copy_keeps_the_modes_of_folders_and_files(shell: Shell, made: HandmadeCheckpoint, new: Path) -> None:
    made.write("state/0/0/1.delta", "state").chmod(0o640)
    for name, mode in ((".", 0o700), ("state", 0o750), ("offsets", 0o2770)):
        (made.root / name).chmod(mode)

    moved(shell, made, new)

    before = {path.relative_to(made.root): path.stat().st_mode for path in (made.root, *made.root.rglob("*"))}
    assert before == {path.relative_to(new): path.stat().st_mode for path in (new, *new.rglob("*"))}


def test_a_new_folder_in_the_old_one_is_refused_also_by_way_of_a_link(
    shell: Shell, made: HandmadeCheckpoint, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(made.root)

    said = shell.refused("checkpoint", "move", str(made.root), str(tmp_path / "link/new"), exit_code=2)

    assert "the new checkpoint must be outside of the old one" in said


def test_a_topic_of_another_name_gets_the_same_offsets(
    shell: Shell, log: oncelog.Log, made: HandmadeCheckpoint, new: Path
) -> None:
    log.create_topic("renamed", partitions=3)
    write_numbers(log, topic="renamed")

    done = moved(shell, made, new, "--topic", f"{TOPIC}=renamed")

    assert (done["next_batch"], done["changed"]) == (2, ["0"])
    assert topics_in(new / "offsets/1") == {"renamed": {"0": 4, "1": 0}}
    assert shell.json("checkpoint", "verify", str(new))["fits"] is True


def test_another_log_gets_the_same_offsets(shell: Shell, made: HandmadeCheckpoint, new: Path, other: Path) -> None:
    moved(shell, made, new, "--to-path", str(other))

    assert topics_in(new / "offsets/1") == {TOPIC: {"0": 4, "1": 0}}
    assert Shell(other).json("checkpoint", "verify", str(new))["fits"] is True
    assert shell.json("checkpoint", "verify", str(new), exit_code=1)["findings"][0]["problem"] == "another log"


def test_a_planned_batch_that_is_not_decided_runs_again_over_the_same_rows(
    shell: Shell, log: oncelog.Log, made: HandmadeCheckpoint, new: Path, other: Path
) -> None:
    plan_next(log, made)
    opened_round(log, made, 2, "run-2")
    log.admin.abort_round("copies")

    done = moved(shell, made, new, "--to-path", str(other))

    assert (done["next_batch"], done["committed_batch"]) == (2, None)
    assert [topics_in(new / f"offsets/{n}")[TOPIC]["0"] for n in (1, 2)] == [4, 5]
    assert folder.read(str(new)).runs_again


def test_a_planned_batch_that_is_decided_is_committed_in_the_new_checkpoint(
    shell: Shell, log: oncelog.Log, made: HandmadeCheckpoint, new: Path, other: Path
) -> None:
    plan_next(log, made)
    opened_round(log, made, 2, "run-2").decide()

    done = moved(shell, made, new, "--to-path", str(other))

    assert (done["next_batch"], done["committed_batch"]) == (3, 2)
    assert topics_in(new / "offsets/2")[TOPIC]["0"] == 5
    assert not folder.read(str(new)).runs_again


def test_what_cannot_be_told_or_would_lose_rows_is_not_moved(
    shell: Shell, log: oncelog.Log, made: HandmadeCheckpoint, new: Path, other: Path, tmp_path: Path
) -> None:
    assert "exists already" in shell.refused("checkpoint", "move", str(made.root), str(tmp_path), exit_code=2)
    assert "outside" in not_moved(shell, made, made.root / "new")
    assert "no offsets of these topics" in not_moved(shell, made, new, "--topic", "no=other")
    assert "does not exist" in not_moved(shell, made, new, "--topic", f"{TOPIC}=no")
    log.create_topic("short", partitions=2)
    assert "lost or read twice" in not_moved(shell, made, new, "--topic", f"{TOPIC}=short")
    log.create_topic("narrow", partitions=1)
    write_numbers(log, topic="narrow")
    assert "lost or read twice" in not_moved(shell, made, new, "--topic", f"{TOPIC}=narrow")
    plan_next(log, made)
    to_other = ("--to-path", str(other))
    assert "no ledger says" in not_moved(shell, made, new, *to_other, "--prefix", "unknown")
    round_ = opened_round(log, made, 2, "run-2")
    assert "is open" in not_moved(shell, made, new, *to_other)
    made.write("state/0/0/1.delta", "state")
    round_.decide()
    assert "with its state" in not_moved(shell, made, new, *to_other)


def test_an_older_copy_of_the_checkpoint_or_of_the_log_is_not_moved(
    shell: Shell, log: oncelog.Log, made: HandmadeCheckpoint, new: Path, other: Path
) -> None:
    with oncelog.open(other) as opened:
        opened_round(opened, made, 0, "run-1").decide()
    assert "copy it while the query is stopped" in not_moved(shell, made, new, "--to-path", str(other))

    plan_next(log, made)
    opened_round(log, made, 2, "run-2").decide()
    (made.root / "offsets/2").unlink()
    assert "older copy" in not_moved(shell, made, new)


def test_a_query_of_two_logs_is_not_moved_to_one(
    shell: Shell, log: oncelog.Log, made: HandmadeCheckpoint, new: Path, other: Path
) -> None:
    with oncelog.open(other) as opened:
        for batch_id in (0, 1):
            made.plan(batch_id, at(log, **{TOPIC: {0: 0}}), at(opened, **{TOPIC: {0: 0}}))

    assert "several logs" in not_moved(shell, made, new, "--to-path", str(other))
    for batch_id in (0, 1):
        made.plan(batch_id, "7")
    assert "no source of the query reads such a place" in not_moved(shell, made, new, "--to-path", str(other))


def test_a_query_that_goes_on_during_the_copy_is_noticed(
    shell: Shell, log: oncelog.Log, made: HandmadeCheckpoint, new: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oncelog.checkpoints.writing.reach", lambda point: plan_next(log, made))

    assert "stop it, and copy again" in not_moved(shell, made, new)
    assert list(new.parent.glob(".new*")) == []


# rebase ---------------------------------------------------------------------------------------------------------------


def rebased(shell: Shell, made: HandmadeCheckpoint, new: Path, *options: str) -> dict[str, Any]:
    before = made.texts()
    done = shell.json("checkpoint", "rebase", str(made.root), str(new), "--topic", TOPIC, *options)["written"]
    assert made.texts() == before, "the old checkpoint was changed"
    assert shell.json("checkpoint", "verify", str(new))["fits"] is True
    assert isinstance(done, dict)
    return done


def not_rebased(shell: Shell, made: HandmadeCheckpoint, new: Path, *options: str) -> str:
    words = ("checkpoint", "rebase", str(made.root), str(new), "--topic", TOPIC, *options)
    said = shell.refused(*words, exit_code=2)
    assert not new.exists()
    return said


@pytest.mark.parametrize(("to", "offset"), [("earliest", 0), ("latest", 2), ("0=1,1=0", 1)])
def test_the_next_batch_begins_in_the_new_topic(
    shell: Shell, log: oncelog.Log, made: HandmadeCheckpoint, new: Path, to: str, offset: int
) -> None:
    create_again(log)

    done = rebased(shell, made, new, "--to", to)

    assert (done["next_batch"], done["dropped_batch"], done["lost"]) == (2, None, [])
    assert [(one["partition"], one["start"]) for one in done["left_behind"]] == [(0, 4), (1, 0)]
    assert topics_in(new / "offsets/1") == {TOPIC: {"0": offset, "1": 0}}


def test_a_decided_batch_is_committed_and_an_undecided_one_is_dropped_if_its_loss_is_accepted(
    shell: Shell, log: oncelog.Log, made: HandmadeCheckpoint, new: Path, tmp_path: Path
) -> None:
    plan_next(log, made)
    create_again(log)
    assert "--accept-loss" in not_rebased(shell, made, new)

    done = rebased(shell, made, new, "--accept-loss")
    assert (done["next_batch"], done["dropped_batch"], done["committed_batch"]) == (2, 2, None)
    assert done["lost"] == [{"topic": TOPIC, "partition": 0, "start": 4, "end": 5}]

    opened_round(log, made, 2, "run-2").decide()
    done = rebased(shell, made, tmp_path / "second")
    assert (done["next_batch"], done["dropped_batch"], done["committed_batch"]) == (3, None, 2)
    assert topics_in(tmp_path / "second/offsets/2") == {TOPIC: {"0": 0, "1": 0}}


def test_a_batch_that_was_planned_of_the_new_topic_loses_nothing(
    shell: Shell, log: oncelog.Log, made: HandmadeCheckpoint, new: Path
) -> None:
    create_again(log, count=9)
    made.plan(2, at(log, **{TOPIC: {0: 9, 1: 0}}))

    done = rebased(shell, made, new)

    assert (done["dropped_batch"], done["lost"]) == (2, [])
    assert [(one["partition"], one["start"]) for one in done["left_behind"]] == [(0, 4), (1, 0)]


def test_what_cannot_be_told_or_would_double_rows_is_not_rebased(
    shell: Shell, log: oncelog.Log, made: HandmadeCheckpoint, new: Path
) -> None:
    assert "rows would be lost or read twice" in not_rebased(shell, made, new)
    plan_next(log, made)
    create_again(log)
    assert "lost or read twice" in not_rebased(shell, made, new, "--to", "0=3,1=0", "--accept-loss")
    assert "lost or read twice" in not_rebased(shell, made, new, "--to", "0=1", "--accept-loss")
    assert "not a beginning" in not_rebased(shell, made, new, "--to", "tomorrow")
    assert "name the sink's ledger" in not_rebased(shell, made, new, "--prefix", "unknown")
    round_ = opened_round(log, made, 2, "run-2")
    assert "is open" in not_rebased(shell, made, new, "--accept-loss")
    made.write("state/0/0/1.delta", "state")
    round_.decide()
    assert "with its state" in not_rebased(shell, made, new)


def test_other_topics_and_sources_keep_their_offsets(
    shell: Shell, log: oncelog.Log, made: HandmadeCheckpoint, new: Path
) -> None:
    log.create_topic("kept")
    kept, rate = at(log, kept={0: 0}), "7"
    for batch_id, end in enumerate((0, 4)):
        made.plan(batch_id, at(log, **{TOPIC: {0: end, 1: 0}, "kept": {0: 0}}), kept, rate)
    create_again(log)

    done = rebased(shell, made, new)

    lines = (new / "offsets/1").read_text().splitlines()
    assert (done["changed"], lines[3:]) == (["0"], [kept, rate])
    assert json.loads(lines[2])["topics"].keys() == {TOPIC, "kept"}


# Whole or not at all --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_copy_that_is_killed_leaves_no_checkpoint_and_can_be_made_again(
    shell: Shell, made: HandmadeCheckpoint, new: Path, tmp_path: Path
) -> None:
    words = ("checkpoint", "move", made.root, new, "--path", shell.folder)
    fault = killing_at(CrashPoint.CHECKPOINT_COPIED, tmp_path / "mark")

    code, _, _ = finished(started_command(*words, env={**os.environ, **fault}))

    assert code == -signal.SIGKILL
    assert not new.exists()
    assert len(list(tmp_path.glob(".new.*.partial"))) == 1
    assert finished(started_command(*words))[0] == 0
    assert texts_in(new) == made.texts()


@pytest.mark.slow
def test_of_two_copies_into_one_folder_one_is_whole_and_the_other_refused(
    shell: Shell, made: HandmadeCheckpoint, new: Path, tmp_path: Path
) -> None:
    for number in range(200):
        made.write(f"state/0/0/{number}.delta", "state")

    both = [started_command("checkpoint", "move", made.root, new, "--path", shell.folder) for _ in range(2)]
    ended = [finished(one) for one in both]

    assert sorted(code for code, _, _ in ended) == [0, 2]
    assert any("exists already" in said for _, _, said in ended)
    assert texts_in(new) == made.texts()
    assert list(tmp_path.glob(".new.*")) == []
