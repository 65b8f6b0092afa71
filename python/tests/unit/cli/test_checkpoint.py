"""The commands `checkpoint`, on checkpoints in each state that a crash leaves, beside the log and its ledger."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import pytest

import oncelog
from oncelog.checkpoints.storage import LocalFolder
from tests.support.log.checkpoints import QUERY, HandmadeCheckpoint, at, opened_round, plan_next, texts_in
from tests.support.log.logs import TOPIC, partition
from tests.support.log.shell import ANSI, Shell, on_terminal


def problems(shell: Shell, made: HandmadeCheckpoint) -> list[tuple[str, str]]:
    """What `verify` finds, and where."""
    found = shell("checkpoint", "verify", str(made.root), "--json")
    document = json.loads(found.stdout)
    assert found.exit_code == (1 if document["findings"] else 0)
    assert all(one["restart"] and one["remedy"] for one in document["findings"])
    return [(one["problem"], one["where"]) for one in document["findings"]]


# show -----------------------------------------------------------------------------------------------------------------


def test_show_says_where_the_query_stands_and_what_its_ledger_knows(
    shell: Shell, log: oncelog.Log, made: HandmadeCheckpoint
) -> None:
    found = shell.json("checkpoint", "show", str(made.root))

    assert found["standing"] == "committed"
    (ledger,) = found["ledgers"]
    assert (ledger["prefix"], ledger["last_batch_id"], ledger["outcome"]) == ("copies", 1, "commit")
    document = found["checkpoint"]
    known = (document["query_id"], document["planned_batch"], document["committed_batch"], document["next_batch"])
    assert known == (QUERY, 1, 1, 2)
    (source,) = document["sources"]
    rows = [(row["topic"], row["partition"], row["start"], row["end"]) for row in source["partitions"]]
    assert (source["kind"], rows) == ("oncelog", [(TOPIC, 0, 4, None), (TOPIC, 1, 0, None)])


@pytest.mark.parametrize("state", ["not decided", "open", "decided", "an aborted round"])
def test_show_names_the_standing_of_a_planned_batch(
    shell: Shell, log: oncelog.Log, made: HandmadeCheckpoint, state: str
) -> None:
    plan_next(log, made)
    if state != "not decided":
        found = opened_round(log, made, 2, "run-2")
        if state == "decided":
            found.decide()
        elif state == "an aborted round":
            log.admin.abort_round("copies")

    document = shell.json("checkpoint", "show", str(made.root))

    assert document["standing"] == ("not decided" if state == "an aborted round" else state)
    assert document["checkpoint"]["runs_again"] is True
    assert "runs batch 2 again" in shell("checkpoint", "show", str(made.root)).stdout


def test_show_reads_sources_of_kafka_and_shows_others_as_they_stand(
    shell: Shell, log: oncelog.Log, tmp_path: Path
) -> None:
    made = HandmadeCheckpoint(tmp_path / "ck")
    made.write("sources/0/0", '\0v1\n{"spark":{"0":3}}')
    made.write("sources/1/0", '\0v1\n{"own":{"0":3}}')
    made.write("sources/1/oncelog-topic-ids.json", '{"own":"first","hidden":"h"}')
    made.write("sources/1/oncelog-topic-ids-1.json", '{"later":"l"}')
    made.write("sources/2/0", 'v1\n{"path":"/data/a.json"}')
    again = '{"own":{"0":1},"@absent":{"hidden":{"0":7}},"@topicIds":{"own":"second"}}'
    made.plan(0, '{"spark":{"0":9}}', again, '{"logOffset":0}', None)

    sources = shell.json("checkpoint", "show", str(made.root))["checkpoint"]["sources"]

    assert [one["kind"] for one in sources] == ["kafka", "oncelog-kafka", "other", None]
    assert [(row["start"], row["end"]) for row in sources[0]["partitions"]] == [(3, 9)]
    by_topic = {row["topic"]: row for row in sources[1]["partitions"]}
    assert (by_topic["own"]["end"], by_topic["own"]["topic_id"]) == (1, "second")
    assert (by_topic["hidden"]["end"], by_topic["hidden"]["topic_id"]) == (7, "h")
    assert sources[2]["end"] == '{"logOffset":0}'


def test_show_reads_an_offset_log_with_named_sources(shell: Shell, log: oncelog.Log, tmp_path: Path) -> None:
    made = HandmadeCheckpoint(tmp_path / "ck")
    made.write("offsets/0", "\n".join(["v2", "{}", f"flights:{at(log, **{TOPIC: {0: 0}})}", "rate:-"]))

    document = shell.json("checkpoint", "show", str(made.root))["checkpoint"]

    assert document["offset_log"] == "v2"
    assert [(one["source"], one["kind"]) for one in document["sources"]] == [("flights", "oncelog"), ("rate", None)]


def test_a_checkpoint_elsewhere_is_refused_with_what_to_do(shell: Shell, tmp_path: Path) -> None:
    assert "copy it to one" in shell.refused("checkpoint", "show", "hdfs://nn/ck", exit_code=2)
    assert "not the folder of a checkpoint" in shell.refused("checkpoint", "show", str(tmp_path / "no"), exit_code=2)


def test_a_source_that_was_taken_out_of_named_ones_is_no_damage(shell: Shell, log: oncelog.Log, tmp_path: Path) -> None:
    made = HandmadeCheckpoint(tmp_path / "ck")
    made.write("offsets/0", "v2\n{}\na:-\nb:-")
    made.write("offsets/1", "v2\n{}\na:-")
    made.commit(0)

    assert problems(shell, made) == []


def test_a_checkpoint_of_which_nothing_is_planned_can_be_shown_and_copied(
    shell: Shell, log: oncelog.Log, tmp_path: Path
) -> None:
    made = HandmadeCheckpoint(tmp_path / "ck")

    shown = shell.json("checkpoint", "show", str(made.root))
    assert (shown["checkpoint"]["planned_batch"], shown["standing"]) == (None, "no batch is planned")
    shell.lines("checkpoint", "show", str(made.root))
    shell.lines("checkpoint", "move", str(made.root), str(tmp_path / "new"))
    assert texts_in(tmp_path / "new") == made.texts()


def test_a_batch_that_the_query_removes_while_its_checkpoint_is_read_is_no_damage(
    shell: Shell, log: oncelog.Log, made: HandmadeCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan_next(log, made)
    list_files = LocalFolder.times

    def times(folder: LocalFolder) -> dict[str, int]:
        found = list_files(folder)
        (made.root / "offsets/0").unlink()
        return found

    monkeypatch.setattr(LocalFolder, "times", times)

    assert shell.json("checkpoint", "show", str(made.root))["checkpoint"]["damaged"] == []


@pytest.mark.slow
@pytest.mark.parametrize("command", ["show", "verify"])
def test_what_is_shown_fits_80_columns_and_names_are_whole(
    shell: Shell, log: oncelog.Log, tmp_path: Path, command: str
) -> None:
    name = "topic-of-a-long-name-" * 8
    log.create_topic(name)
    made = HandmadeCheckpoint(tmp_path / "ck")
    made.plan(0, at(log, **{name: {0: 7}}))

    shown, said = on_terminal("checkpoint", command, made.root, "--path", shell.folder)

    assert said == ""
    lines = ANSI.sub("", shown).splitlines()
    assert [line for line in lines if len(line) > 80] == []
    assert name in "".join("".join(lines).split())


# verify ---------------------------------------------------------------------------------------------------------------


def test_a_checkpoint_fits_in_each_state_of_its_newest_batch(
    shell: Shell, log: oncelog.Log, made: HandmadeCheckpoint
) -> None:
    assert problems(shell, made) == []
    plan_next(log, made)
    assert problems(shell, made) == []
    found = opened_round(log, made, 2, "run-2")
    assert problems(shell, made) == []
    found.decide()
    assert problems(shell, made) == []


@pytest.mark.parametrize("torn", ["", "v1", "v1\n{}", "v1\n{", 'v1\n{}\n{"version":1,"clu', "v3\n{}\n-", "\x00\x00"])
@pytest.mark.parametrize("name", ["offsets/1", "offsets/0"])
def test_a_torn_file_of_the_offset_log_is_found(shell: Shell, made: HandmadeCheckpoint, name: str, torn: str) -> None:
    made.write(name, torn)

    assert ("damaged file", name) in problems(shell, made)
    assert "damaged" in shell.refused("checkpoint", "move", str(made.root), f"{made.root}-2", exit_code=2)


@pytest.mark.parametrize("name", ["commits/1", "metadata"])
@pytest.mark.parametrize("torn", ["", "v1", '{"id"', "\x00"])
def test_other_torn_files_are_found(shell: Shell, made: HandmadeCheckpoint, name: str, torn: str) -> None:
    made.write(name, torn)

    assert ("damaged file", name) in problems(shell, made)


@pytest.mark.parametrize(
    ("missing", "named"),
    [("metadata", "metadata"), ("commits/1", None), ("offsets/0", "offsets/0"), ("offsets/1", "offsets/1")],
)
def test_a_missing_file_is_found_if_a_restart_needs_it(
    shell: Shell, made: HandmadeCheckpoint, missing: str, named: str | None
) -> None:
    (made.root / missing).unlink()

    assert [where for problem, where in problems(shell, made) if problem == "damaged file"] == (
        [named] if named else []
    )


def test_a_commit_that_is_missing_before_a_planned_batch_is_found(
    shell: Shell, log: oncelog.Log, made: HandmadeCheckpoint
) -> None:
    plan_next(log, made)
    (made.root / "commits/1").unlink()

    assert problems(shell, made) == [("damaged file", "commits/1")]


def test_a_file_that_was_edited_does_not_have_its_checksum(shell: Shell, made: HandmadeCheckpoint) -> None:
    text = (made.root / "offsets/1").read_bytes()
    sums = b"".join(zlib.crc32(text[i : i + 512]).to_bytes(4, "big") for i in range(0, len(text), 512))
    (made.root / "offsets/.1.crc").write_bytes(b"crc\0" + (512).to_bytes(4, "big") + sums)
    assert problems(shell, made) == []

    made.write("offsets/1", text.decode().replace('"0":4', '"0":3'))

    assert problems(shell, made) == [("damaged file", "offsets/1")]


def test_two_files_with_the_querys_id_are_found(shell: Shell, made: HandmadeCheckpoint) -> None:
    made.write("metadata.old", "{}")

    assert problems(shell, made) == [("damaged file", "metadata")]


def test_offsets_that_go_backwards_are_found(shell: Shell, log: oncelog.Log, made: HandmadeCheckpoint) -> None:
    made.plan(2, at(log, **{TOPIC: {0: 3, 1: 0}}))

    assert problems(shell, made) == [("offsets go backwards", f"offsets/2, source 0, {TOPIC}-0")]


def test_a_topic_that_is_gone_or_created_again_is_found(
    shell: Shell, log: oncelog.Log, made: HandmadeCheckpoint
) -> None:
    log.admin.delete_topic(TOPIC)
    assert problems(shell, made) == [("topic is missing", f"source 0, topic {TOPIC}")]

    log.create_topic(TOPIC, partitions=2)
    assert problems(shell, made) == [("topic was created again", f"source 0, topic {TOPIC}")]


def test_an_offset_behind_retention_or_beyond_the_end_is_found(
    shell: Shell, log: oncelog.Log, made: HandmadeCheckpoint
) -> None:
    log.admin.delete_records({partition(log).topic_partition: 5})
    assert problems(shell, made) == [("offset is behind retention", f"source 0, {TOPIC}-0")]

    made.plan(2, at(log, **{TOPIC: {0: 99, 1: 0}}))
    made.commit(2)
    assert ("offset is beyond the end", f"source 0, {TOPIC}-0") in problems(shell, made)


def test_another_log_is_found(shell: Shell, made: HandmadeCheckpoint, tmp_path: Path) -> None:
    oncelog.open(tmp_path / "other").close()

    assert problems(Shell(tmp_path / "other"), made) == [("another log", "source 0")]


def test_a_ledger_that_is_ahead_or_behind_is_found(shell: Shell, log: oncelog.Log, made: HandmadeCheckpoint) -> None:
    older = made.texts()
    plan_next(log, made)
    opened_round(log, made, 2, "run-2").decide()
    assert problems(shell, made) == []

    (made.root / "offsets/2").unlink()
    assert problems(shell, made) == [("ledger is ahead", "ledger copies of log")]
    assert made.texts() == older

    for batch_id in (2, 3):
        made.plan(batch_id, at(log, **{TOPIC: {0: 5, 1: 0}}))
        made.commit(batch_id)
    assert problems(shell, made) == [("ledger is behind", "ledger copies of log")]


def test_a_batch_that_was_decided_with_other_offsets_is_found(
    shell: Shell, log: oncelog.Log, made: HandmadeCheckpoint
) -> None:
    plan_next(log, made)
    opened_round(log, made, 2, "run-2").decide()
    made.plan(2, at(log, **{TOPIC: {0: 4, 1: 0}}))

    assert problems(shell, made) == [("batch has other offsets", "ledger copies of log")]


def test_verify_says_what_it_did_not_compare(shell: Shell, made: HandmadeCheckpoint, log: oncelog.Log) -> None:
    found = shell("checkpoint", "verify", str(made.root), "--prefix", "another")
    assert found.stdout.splitlines() == ["not compared: no ledger of this query was named", "it fits"]
