"""Which tests prove which law: ``python -m tests.spec.index`` writes INDEX.md from the citations in the tests.

A law without a test has a reason here; so has one of which a part is not proven yet.
"""

from __future__ import annotations

import ast
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.style.citations import CITATION
from tests.style.tree import ROOT, TEST_FOLDERS, files, parsed

INDEX = Path(__file__).with_name("INDEX.md")

LAWS: Mapping[str, Mapping[int, str]] = {
    "Coordinator": {
        1: "A new id starts at epoch 0, each init is one higher; of parallel inits each has its own and one survives.",
        2: "Init with an expected identity: the current one is bumped, the last answered again, an older fenced.",
        3: "Init over an open transaction aborts it; its producer is fenced on send, offsets, commit, add-partition.",
        4: "Init while a decided transaction is unfinished leaves its outcome unchanged.",
        5: "At the end of the epochs init takes a fresh producer id, idempotently, also after a restart.",
        6: "EndTxn at epoch 32766 answers (new producer id, 0), and the same to a retry with the old pair.",
        7: "Fencing an open transaction at 32766 does not overflow; epoch 32767 is recovered from.",
        8: "The whole matrix of EndTxn: every state x commit, abort x retry, current, older, newer.",
        9: "An empty abort after a commit works and fences nobody; an empty commit is a no-op in the API.",
        10: "A time-out aborts, bumps and fences; a late commit gets the documented error and is never visible.",
        11: "A time-out that races a commit never aborts what is decided: exactly one of them wins.",
        12: "A time-out of 0, below 0 or over the maximum is refused; a prepared transaction never times out.",
        13: "Ids expire only from empty and complete; afterwards INVALID_PRODUCER_ID_MAPPING and a clean start.",
        14: "A crash at every boundary: recovery finishes the same outcome exactly once.",
        15: "A fence that failed burns no further epochs when it is retried.",
        16: "A write that failed is a retriable error and leaves the state in memory unchanged.",
        17: "A stale coordinator cannot write state, markers or producer-id blocks.",
        18: "Producer-id blocks: no overlap, a lost answer wastes at most one, exhaustion is fatal.",
        19: "Describing, listing and filtering transactions; expired ids are hidden.",
        20: "Another producer id under the same transactional id is INVALID_PRODUCER_ID_MAPPING.",
        21: "A delayed request of transaction k that arrives in k + 1 has no effect.",
    },
    "Partition log": {
        22: "An exact duplicate among the last five gets the same offsets; the sixth is out of order.",
        23: "A sequence gap is rejected; sequences wrap at 2^31 - 1, also within a batch.",
        24: "A new epoch begins at sequence 0; a lower epoch is fenced.",
        25: "Duplicates are known after a restart.",
        26: "Corrupt, truncated, empty and stray files are told apart and never read as data.",
        27: "The last stable offset is the first undecided one, or lower where half of a transaction is held back.",
        28: "The last stable offset, the log start and files under retention and deletion; unsettled data stays.",
        29: "Transactions and aborted ranges over rolls of the index; lookups do not grow with the history.",
        30: "A failed write of the index loses nothing.",
        31: "A write outside of a known, open transaction is rejected.",
        32: "A non-transactional write of a producer with an open transaction is INVALID_TXN_STATE.",
        33: "A repeated marker is harmless, and so is one for a producer without data.",
        34: "A producer with an open transaction never expires; an expired one can go on.",
        35: "Compaction drops aborted data and keeps markers and last sequences.",
    },
    "Consumer": {
        36: "Of two interleaved transactions, one aborted, only the committed one is seen.",
        37: "Undecided data is invisible; ends, latest and offsets for times are bounded by the last stable offset.",
        38: "A read that starts inside an aborted transaction still filters it.",
        39: "An abort and a commit of one producer, in one fetch and across fetches.",
        40: "Positions pass markers and aborted spans; an empty range advances and is no data loss.",
        41: "Compressed batches of all codecs, aborted.",
        42: "read_uncommitted sees everything, and control records never.",
        43: "A hanging transaction is found and aborted; its owner's late commit fails or is harmless.",
    },
    "Offsets": {
        44: "Offsets and data of a transaction commit or abort together, also over a restart in between.",
        45: "A stable fetch is UNSTABLE until the decision; a plain one returns the old value.",
        46: "A plain commit after a staged one wins over it, whenever it is settled.",
        47: "A zombie's offsets are fenced; the id is usable again.",
        48: "Expiry and deletion of groups respect pending transactions.",
    },
    "Two-phase commit and Spark": {
        49: "Prepare in one process, commit from another with the token.",
        50: "A double commit or abort is idempotent, the opposite fails loudly; also after a restart, at epoch 32766.",
        51: "Empty tasks and empty batches commit cleanly.",
        52: "A driver dies after the decision: its restart finishes the same batch, with no second copy.",
        53: "A driver dies before the decision: all is aborted, the batch is run again, nothing is visible twice.",
        54: "Task retry, speculative duplicate, zombie: exactly one attempt's records are visible.",
        55: "Readers wait at a prepared transaction's first offset; other ids are unaffected.",
        56: "Prepared longer than the time-out: an explicit prepare waits for ever, an undecided round times out.",
        57: "A restart with other partitions or another prefix: what lingers ends as its round did.",
        58: "A checkpoint restored twice, or an older one: no wrong transaction is committed.",
        59: "An id that is used again: the outcome of one generation is never applied to the next.",
        60: "Broker or coordinator unavailable in any call: retries, then a clear error, and no leak.",
        61: "Retriable, fenced, invalid-state and unknown errors of a commit each take their documented path.",
        62: "Two queries under one prefix are detected; of two drivers of one query the older is fenced.",
        63: "Records over the batch limit are split and stay atomic; an oversized one fails, and nothing is visible.",
    },
    "End to end under faults": {
        64: "Copying numbered records under random kills: no duplicate, no loss, order kept, all readers agree.",
        65: "Aborting every third transaction under restarts.",
        66: "A checker of histories: no aborted, lost, doubled, torn, skipped or reordered record is ever polled.",
        67: "ZooKeeper session expiry and lost answers: reading again decides, and no transition happens twice.",
        68: "Brokers of mixed transaction versions during a run.",
    },
}

REASONS: Mapping[int, str] = {
    35: "No counterpart: the log has no compaction. Retention removes whole record batches from the log start.",
}


class Proof(NamedTuple):
    """A test that cites a law.

    Attributes:
        file: as seen from the project's top.
        test: its name; "" if the file cites the law.
        is_daily: whether `make test` runs it.
    """

    file: str
    test: str
    is_daily: bool


def proofs() -> dict[int, list[Proof]]:
    """The tests of each law, in order of their files and lines."""
    found: dict[int, list[Proof]] = defaultdict(list)
    for path in sorted(path for folder in TEST_FOLDERS for path in files(".py", below=folder)):
        module = parsed(path)
        is_daily = not any(map(_takes_turns, _marks_of_file(module)))
        for node, is_test_daily in _nodes(module, is_daily):
            for number in _cited(node):
                found[number].append(Proof(path.relative_to(ROOT).as_posix(), getattr(node, "name", ""), is_test_daily))
    return found


def _nodes(node: ast.AST, is_daily: bool) -> Iterator[tuple[ast.AST, bool]]:
    """A node and all below it, each with whether `make test` runs it: nothing in a class that takes turns."""
    is_daily = is_daily and not any(map(_takes_turns, getattr(node, "decorator_list", ())))
    yield node, is_daily
    for child in ast.iter_child_nodes(node):
        yield from _nodes(child, is_daily)


def _marks_of_file(module: ast.Module) -> Iterator[ast.expr]:
    for node in module.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
            yield node.value


def _takes_turns(mark: ast.expr) -> bool:
    """Whether a mark is `walk`, or `sampled` with a group."""
    groups = {part.func for part in ast.walk(mark) if isinstance(part, ast.Call)}
    marks = [part for part in ast.walk(mark) if isinstance(part, ast.Attribute)]
    return any(part.attr == "walk" or (part.attr == "sampled" and part in groups) for part in marks)


def _cited(node: ast.AST) -> Iterator[int]:
    """The laws that a docstring cites."""
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
        for line in (ast.get_docstring(node) or "").splitlines():
            citation = CITATION.search(line)
            yield from map(int, citation[1].split(", ") if citation else ())


def text() -> str:
    """What INDEX.md says."""
    found = proofs()
    lines = [
        "# Laws and their tests",
        "",
        "Written by `python -m tests.spec.index` (in `python/`) from the citations in the tests; not by hand.",
        "Each law comes from a test of Apache Kafka or Flink, or from a bug report.",
    ]
    for chapter, laws in LAWS.items():
        lines += ["", f"## {chapter}"]
        for number, law in laws.items():
            lines += ["", f"**{number}.** {law}", "", *_evidence(number, found.get(number, []))]
    return "\n".join(lines) + "\n"


def _evidence(number: int, found: list[Proof]) -> Iterator[str]:
    by_file: dict[str, list[str]] = defaultdict(list)
    for proof in found:
        by_file[proof.file].append(proof.test)
    for file, tests in by_file.items():
        named = ", ".join(f"`{test}`" for test in dict.fromkeys(tests) if test)
        link = Path(os.path.relpath(ROOT / file, INDEX.parent)).as_posix()
        yield f"- [{file}]({link}){f': {named}' if named else ''}"
    if number in REASONS:
        yield f"- {REASONS[number]}"


if __name__ == "__main__":
    INDEX.write_text(text(), encoding="utf-8")
