"""The faults, layer by layer. Read the other way round: what each of these lines of the product is there for.

A fault replaces a piece of text that occurs once in a file. The tests it names are the quickest that catch it, not all.
"""

from __future__ import annotations

from typing import NamedTuple


class Fault(NamedTuple):
    """A piece of the product that is broken on purpose.

    Attributes:
        name: what is wrong.
        file: below the folder of the package ``oncelog``; those of the connector begin with `KAFKA`.
        sound, broken: the text as it is, and as it is planted.
        tests: one of them has to fail; as pytest's arguments, below the folder of the tests.
    """

    name: str
    file: str
    sound: str
    broken: str
    tests: tuple[str, ...]


KAFKA = "../../connectors/kafka/"
"""Of what needs no broker to be caught."""

IDENTITY = [
    Fault(
        "the epoch is not checked",
        "protocol/coordinator_core.py",
        "    if given == metadata.producer:\n        return False\n    may_be_retried",
        "    return False\n    may_be_retried",
        ("unit/protocol/test_coordinator_core.py",),
    ),
    Fault(
        "any older identity counts as a retry",
        "protocol/coordinator_core.py",
        "if given == metadata.last and may_be_retried and",
        "if may_be_retried and",
        ("unit/protocol/test_coordinator_core.py",),
    ),
    Fault(
        "a retry is believed while the next transaction is open",
        "protocol/coordinator_core.py",
        "may_be_retried and metadata.state is not TxnState.ONGOING:",
        "may_be_retried:",
        ("spec/test_end_txn_matrix.py",),
    ),
    Fault(
        "the last epoch is used",
        "protocol/coordinator_core.py",
        "LAST_USABLE_EPOCH: Final = MAX_PRODUCER_EPOCH - 1",
        "LAST_USABLE_EPOCH: Final = MAX_PRODUCER_EPOCH",
        ("unit/protocol/test_coordinator_core.py",),
    ),
    Fault(
        "a repeated init takes a second epoch",
        "protocol/coordinator_core.py",
        "    if metadata.nonce == event.nonce:\n        return Step(metadata, (), metadata.producer)\n",
        "",
        ("unit/protocol/test_coordinator_core.py",),
    ),
    Fault(
        "an init that lost its answer fences its successor",
        "protocol/coordinator_core.py",
        "    if event.base_nonce not in {None, metadata.nonce}:\n        raise _fenced(metadata, event)\n",
        "",
        ("spec/test_coordinator_laws.py", "spec/test_fencing_laws.py", "spec/test_crash_laws.py"),
    ),
    Fault(
        "an init over an open round is let through",
        "protocol/coordinator_core.py",
        "if event.owner_outcome is Outcome.OPEN and event.round != metadata.round:",
        "if False:",
        ("spec/test_round_laws.py",),
    ),
    Fault(
        "two processes get the same producer ids",
        "coordinator/producer_ids.py",
        "end = start + limits.PRODUCER_ID_BLOCK\n",
        "end = start + 1\n",
        ("unit/coordinator/test_producer_ids.py",),
    ),
    Fault(
        "an init that lost to a rival begins anew",
        "coordinator/transactions.py",
        "            if base_nonce is None:\n                seen.append(",
        "            if True:\n                seen.append(",
        ("simulation/test_found_bugs.py",),
    ),
    Fault(
        "a forked child gives out its parent's producer ids",
        "coordinator/producer_ids.py",
        "if os.getpid() != self._process_id:",
        "if False:",
        ("unit/coordinator/test_producer_ids.py::test_a_forked_child_never_gives_out_its_parents_ids",),
    ),
    Fault(
        "a forked child sends with its parent's producer",
        "clients/producer.py",
        "return os.getpid() != self._process_id",
        "return False",
        ("unit/clients/test_producer.py::test_a_forked_child_has_no_part_in_the_producer_of_its_parent",),
    ),
]

ENDING = [
    Fault(
        "a prepared transaction times out",
        "coordinator/metadata.py",
        "stored.open_transaction is None or stored.prepared:",
        "stored.open_transaction is None:",
        ("spec/test_timeout_laws.py",),
    ),
    Fault(
        "a prepared transaction takes more writes",
        "protocol/coordinator_core.py",
        "    if metadata.prepared:\n        raise",
        "    if False:\n        raise",
        ("spec/test_two_phase_laws.py",),
    ),
    Fault(
        "any token commits a prepared transaction",
        "protocol/coordinator_core.py",
        "outcome = Outcome.COMMIT if event.owner == metadata.owner else Outcome.ABORT",
        "outcome = Outcome.COMMIT",
        ("spec/test_two_phase_laws.py",),
    ),
    Fault(
        "a decision does not touch /commits",
        "coordinator/metadata.py",
        'replace(record, outcome=decision.outcome)))\n    view.set_blind(paths.COMMITS, b"")\n',
        "replace(record, outcome=decision.outcome)))\n",
        ("spec/test_coordinator_laws.py", "unit/coordinator/test_transactions.py"),
    ),
    Fault(
        "an operator's abort hits the id's next transaction",
        "coordinator/metadata.py",
        "if stored is None or stored.open_transaction is None or stored.owner != owner:",
        "if stored is None or stored.open_transaction is None:",
        ("unit/coordinator/test_transactions.py", "unit/clients/test_admin_transactions.py"),
    ),
    Fault(
        "a transaction with a manifest is committed in one phase",
        "coordinator/transactions.py",
        "return len(appends) == 1 and appends[0].manifest_file is None",
        "return len(appends) == 1",
        ("unit/clients/test_commit_with_append.py",),
    ),
    Fault(
        "an unknown outcome is given up at once",
        "coordinator/transactions.py",
        "            except OutcomeUnknownError as error:\n                unknown = error\n",
        "            except OutcomeUnknownError:\n                raise\n",
        ("spec/test_crash_laws.py", "spec/test_coordinator_laws.py"),
    ),
    Fault(
        "a time-out comes at once",
        "coordinator/sweeper.py",
        "or now_ms - since_ms <= record.timeout_ms:",
        "or now_ms < since_ms:",
        ("unit/coordinator/test_sweeper.py",),
    ),
    Fault(
        "an idle id expires although it was just used",
        "coordinator/metadata.py",
        "if znode is None or znode.stat.version != version:",
        "if znode is None:",
        ("unit/coordinator/test_sweeper.py", "spec/test_timeout_laws.py"),
    ),
    Fault(
        "a repeated completion by token believes that it ended the transaction",
        "protocol/coordinator_core.py",
        "    outcome = Outcome.COMMIT if event.owner == metadata.owner else Outcome.ABORT\n",
        "    if is_retry:\n        return Step(metadata, (), metadata.producer)\n"
        "    outcome = Outcome.COMMIT if event.owner == metadata.owner else Outcome.ABORT\n",
        ("spec/test_two_phase_laws.py::test_a_token_never_commits_what_an_operator_aborted",),
    ),
    Fault(
        "a commit fails for want of a topic that was deleted behind it",
        "coordinator/transactions.py",
        "return partition_log.append(view, request) if partition_log.exists(view, request.partition) else None",
        "return partition_log.append(view, request)",
        ("unit/clients/test_producer.py::test_a_committed_transaction_is_never_called_failed_because_its_topic_went",),
    ),
    Fault(
        "a roll behind a commit fails it",
        "log/partition_log.py",
        "        with suppress(OncelogError):\n            roll",
        "        with suppress(CorruptDataError):\n            roll",
        (
            "unit/clients/test_producer.py::test_what_is_in_the_log_is_not_called_failed_because_its_topic_went_before_the_tail_was_rolled",
        ),
    ),
]

SEQUENCES = [
    Fault(
        "a flush without an answer drops its records",
        "clients/producer.py",
        "                self._unfinished = sending\n",
        "",
        ("unit/clients/test_producer.py::test_a_flush_of_an_idempotent_producer_goes_on_where_it_got_no_answer",),
    ),
    Fault(
        "records that are sent behind dropped ones keep their identity",
        "clients/producer.py",
        "            self._identity = None\n",
        "",
        ("unit/clients/test_producer.py",),
    ),
    Fault(
        "a send that cannot make room takes its record all the same",
        "clients/producer.py",
        "        if self._accumulator.size_bytes + unfinished_bytes >= BUFFER_BYTES:\n",
        "        if self._accumulator.size_bytes >= BUFFER_BYTES:\n",
        ("unit/clients/test_producer.py::test_a_send_that_cannot_make_room_takes_nothing",),
    ),
    Fault(
        "a gap in the sequence is accepted",
        "protocol/sequencing.py",
        "    if base_sequence != expected:\n",
        "    if base_sequence < expected:\n",
        ("unit/protocol/test_sequencing.py",),
    ),
    Fault(
        "sequences do not wrap around",
        "protocol/sequencing.py",
        "return (sequence + count) % _SEQUENCES",
        "return sequence + count",
        ("unit/protocol/test_sequencing.py",),
    ),
    Fault(
        "the window of duplicates holds four batches",
        "protocol/sequencing.py",
        "AppendedBatch(base_sequence, count, base_offset))[-DEDUPE_WINDOW:]",
        "AppendedBatch(base_sequence, count, base_offset))[1 - DEDUPE_WINDOW :]",
        ("unit/protocol/test_sequencing.py",),
    ),
    Fault(
        "a new epoch begins at any sequence",
        "protocol/sequencing.py",
        "        _check_follows(entry, producer, base_sequence, expected=0)\n",
        "        pass\n",
        ("spec/test_sequence_laws.py",),
    ),
    Fault(
        "an older epoch may append",
        "protocol/sequencing.py",
        "if producer.epoch < entry.epoch:",
        "if False:",
        ("spec/test_sequence_laws.py",),
    ),
    Fault(
        "a marker closes the producer's next transaction",
        "protocol/sequencing.py",
        "    if entry.open_owner != owner:\n        return entry\n",
        "",
        ("unit/protocol/test_sequencing.py",),
    ),
    Fault(
        "the sender does not count its records",
        "clients/sender.py",
        "sequence_add(request.base_sequence, request.count)",
        "sequence_add(request.base_sequence, 1)",
        ("unit/clients/test_producer.py",),
    ),
]

VISIBILITY = [
    Fault(
        "the last stable offset is off by one",
        "protocol/visibility.py",
        "ends = {key: span.first if span else partitions[key].log_end for key, span in blocking.items()}",
        "ends = {key: span.first + 1 if span else partitions[key].log_end for key, span in blocking.items()}",
        ("unit/protocol/test_visibility.py",),
    ),
    Fault(
        "the plan is a plain LSO",
        "protocol/visibility.py",
        "        if not torn:\n",
        "        if True:\n",
        ("unit/protocol/test_visibility.py",),
    ),
    Fault(
        "a decision behind the snapshot counts",
        "protocol/visibility.py",
        "if state.decided_zxid <= snapshot_zxid}",
        "if state.outcome is not Outcome.OPEN}",
        ("unit/protocol/test_visibility.py", "properties/test_visibility_model.py"),
    ),
    Fault(
        "a reader does not notice that it was overtaken",
        "protocol/visibility.py",
        "return any(partition.trim > snapshot_zxid for partition in partitions)",
        "return False",
        ("unit/protocol/test_visibility.py", "unit/log/test_snapshot.py"),
    ),
    Fault(
        "settled aborted data is shown",
        "protocol/visibility.py",
        "return Outcome.ABORT if entry.producer in aborted else Outcome.COMMIT",
        "return Outcome.COMMIT",
        ("unit/protocol/test_visibility.py",),
    ),
    Fault(
        "the losers of a round are shown",
        "protocol/partition.py",
        "if self.outcome is Outcome.COMMIT and self.participants is not None and producer not in self.participants:",
        "if False:",
        ("unit/protocol/test_visibility.py", "unit/coordinator/test_rounds.py"),
    ),
    Fault(
        "read_committed reads up to the log end",
        "log/snapshot.py",
        "if isolation is IsolationLevel.READ_COMMITTED:\n            return max(self.plan.ends[partition]",
        "if False:\n            return max(self.plan.ends[partition]",
        ("unit/log/test_snapshot.py", "unit/clients/test_consumer.py"),
    ),
    Fault(
        "the reader reads /commits last",
        "log/snapshot.py",
        "            zxid = commits_zxid(reader) if snapshot_zxid is None else snapshot_zxid\n"
        "            found, owners = _read(reader, wanted, read, with_neighbours=with_neighbours)\n",
        "            found, owners = _read(reader, wanted, read, with_neighbours=with_neighbours)\n"
        "            zxid = commits_zxid(reader) if snapshot_zxid is None else snapshot_zxid\n",
        ("properties/test_live_reads.py", "unit/log/test_snapshot.py"),
    ),
    Fault(
        "a consumer stops in front of a marker",
        "clients/consumer.py",
        "visible.slices)\n        self.planned_end = visible.end\n        self.pass_planned_end()\n",
        "visible.slices)\n",
        ("unit/clients/test_consumer.py", "spec/test_visibility_laws.py"),
    ),
]

APPENDING = [
    Fault(
        "data is appended to a decided transaction",
        "log/partition_log.py",
        "    if owner is not None:\n        _check_owner_is_open(view, owner, partition)\n",
        "",
        ("unit/log/test_partition_log.py",),
    ),
    Fault(
        "a file that may be gone is named",
        "log/partition_log.py",
        "    generations.check_fresh(view, request.files)\n",
        "",
        ("unit/log/test_partition_log.py", "unit/log/test_collection.py"),
    ),
    Fault(
        "a settler leaves trim alone",
        "log/partition_log.py",
        "trim=max(state.trim, snapshot_zxid),",
        "trim=state.trim,",
        ("properties/test_live_reads.py",),
    ),
    Fault(
        "a marker leaves the producer's transaction open",
        "log/partition_log.py",
        "            _close_transaction(view, paths.producer(partition, producer.producer_id), span.owner)\n",
        "            pass\n",
        ("unit/log/test_partition_log.py", "unit/coordinator/test_settler.py"),
    ),
    Fault(
        "two processes roll the same tail",
        "log/partition_log.py",
        "        if (now.roots, now.log_start) != (state.roots, state.log_start):\n            return False\n",
        "",
        ("spec/test_index_laws.py",),
    ),
    Fault(
        "a hole in front of the tail is passed over",
        "log/partition_log.py",
        "    if tail_start > rolled_end:\n",
        "    if False:\n",
        (
            "unit/log/test_snapshot.py",
            "unit/log/test_verification.py",
            "properties/test_live_reads.py",
            "unit/log/test_index.py",
        ),
    ),
    Fault(
        "a span begins at the owner's last append",
        "protocol/partition.py",
        "grown = OwnerSpan(owner, span.first, last, producers)",
        "grown = OwnerSpan(owner, first, last, producers)",
        ("unit/log/test_partition_log.py", "unit/protocol/test_visibility.py"),
    ),
]

STEPS = [
    Fault(
        "a read is dropped from the read set",
        "znodes/view.py",
        "*(Check(path, versions[path]) for path in versions if",
        "*(Check(path, versions[path]) for path in () if",
        ("unit/znodes/test_transact.py",),
    ),
    Fault(
        "a step overwrites what it did not read",
        "znodes/view.py",
        "*(Set(path, data, versions[path]) for path, data in sets.items()),",
        "*(Set(path, data) for path, data in sets.items()),",
        ("unit/znodes/test_transact.py",),
    ),
    Fault(
        "an absence is believed without its parent",
        "znodes/view.py",
        "        if znode is None:\n            self._read_ancestor_of_absent(path)\n",
        "",
        ("unit/znodes/test_transact.py",),
    ),
    Fault(
        "an absence that ended while it was read is believed",
        "znodes/transact.py",
        "    if view.torn_path is not None:\n        return view.torn_path\n",
        "",
        ("unit/znodes/test_histories.py",),
    ),
    Fault(
        "a step that slept too long still writes",
        "znodes/transact.py",
        "    except StaleStepError:\n        return ops[0].path\n",
        "",
        ("unit/znodes/test_transact.py",),
    ),
    Fault(
        "SQLite does not wait for the disk",
        "znodes/sqlite/connection.py",
        '            self.rows("PRAGMA synchronous = FULL")',
        '            self.rows("PRAGMA synchronous = OFF")',
        ("unit/znodes/test_sqlite_file.py",),
    ),
    Fault(
        "another host may write to the SQLite file",
        "znodes/sqlite/file.py",
        "if owner.host_id and not owner.is_same_host(here):",
        "if False:",
        ("unit/znodes/test_sqlite_file.py",),
    ),
    Fault(
        "a step that is too large is not halved",
        "znodes/transact.py",
        "        if not middle:\n            raise\n",
        "        raise\n",
        (
            "unit/coordinator/test_step_sizes.py::test_parts_are_halved_as_often_as_they_are_too_large_and_stay_in_order",
        ),
    ),
    Fault(
        "a round that writes a part again writes it twice, or not at all",
        "coordinator/rounds.py",
        "            if paths.partition(parts[0].partition) not in written\n",
        "            if paths.partition(participants[0][0].partition) not in written\n",
        ("unit/coordinator/test_step_sizes.py::test_a_round_goes_on_with_the_participants_that_are_missing",),
    ),
    Fault(
        "an owner without room in its partition's znode is listed",
        "log/partition_log.py",
        " or grown_bytes > limits.MAX_PARTITION_BYTES):",
        "):",
        (
            "unit/coordinator/test_step_sizes.py::test_a_partition_without_room_for_one_more_name_is_pinned_and_free_again_once_settled",
        ),
    ),
    Fault(
        "a transaction grows until nothing can end it",
        "coordinator/metadata.py",
        "    if len(data) > limits.MAX_TRANSACTION_BYTES:\n",
        "    if False:\n",
        (
            "unit/coordinator/test_step_sizes.py::test_a_transaction_that_names_too_much_for_its_end_can_still_be_aborted",
        ),
    ),
    Fault(
        "pending offsets wait for their settlers",
        "coordinator/groups.py",
        "        if len(state.pending) >= limits.PENDING_OFFSETS_KEPT:\n",
        "        if False:\n",
        (
            "unit/coordinator/test_step_sizes.py::test_pending_offsets_of_decided_transactions_are_folded_before_their_settlers_come",
        ),
    ),
    Fault(
        "the settling behind a commit fails it",
        "clients/upkeep.py",
        "    except InvariantViolation:\n",
        "    except ZeroDivisionError:\n",
        ("unit/clients/test_upkeep.py",),
    ),
]

BATCHES = [
    Fault(
        "a replayed batch is written again",
        "protocol/batch_ledger.py",
        "if last is not None and request.batch_id <= last.batch_id:",
        "if False:",
        ("unit/protocol/test_batch_ledger.py",),
    ),
    Fault(
        "a batch of other offsets passes for a replay",
        "protocol/batch_ledger.py",
        "if request.fingerprint != last.fingerprint:",
        "if False:",
        ("unit/protocol/test_batch_ledger.py",),
    ),
    Fault(
        "a superseded run goes on",
        "protocol/batch_ledger.py",
        "if run_id in ledger.superseded_runs:",
        "if False:",
        ("unit/protocol/test_batch_ledger.py",),
    ),
    Fault(
        "a query continues another's history unasked",
        "protocol/batch_ledger.py",
        "if request.takeover != ledger.query_id:",
        "if False:",
        ("unit/protocol/test_batch_ledger.py",),
    ),
    Fault(
        "a batch is written again under another name",
        "protocol/batch_ledger.py",
        "    if held:\n",
        "    if False:\n",
        ("unit/protocol/test_batch_ledger.py", "spec/test_changed_name_laws.py"),
    ),
    Fault(
        "the sinks of one function pass for each other's former names",
        "protocol/batch_ledger.py",
        " and not other.runs & planned.runs",
        "",
        ("unit/protocol/test_batch_ledger.py", "spec/test_changed_name_laws.py"),
    ),
    Fault(
        "a run under a former name goes on",
        "coordinator/former_names.py",
        '        view.set(f"{root}/{paths.segment(prefix)}", payloads.encode_ledger(superseded))\n',
        "",
        ("spec/test_changed_name_laws.py",),
    ),
    Fault(
        "a ledger that is made meanwhile is not looked at",
        "coordinator/former_names.py",
        "query_ids.get(name, request.query_id) != request.query_id",
        "query_ids.get(name) != request.query_id",
        ("spec/test_changed_name_laws.py",),
    ),
    Fault(
        "a new round leaves the older one open",
        "coordinator/rounds.py",
        "    if verdict.previous is not None:\n        abort_in(view, request.prefix, verdict.previous)\n",
        "",
        ("unit/coordinator/test_rounds.py", "spec/test_round_laws.py"),
    ),
    Fault(
        "an aborted round is decided",
        "coordinator/rounds.py",
        "if record is None or record.outcome is not Outcome.OPEN or ledger.current_round != self.number:",
        "if record is None:",
        ("unit/coordinator/test_rounds.py", "spec/test_round_laws.py"),
    ),
    Fault(
        "decide without the group check",
        "coordinator/rounds.py",
        "        if self._has_staged:\n            self._check_group_unmoved",
        "        if False:\n            self._check_group_unmoved",
        (
            "simulation/test_round_interleavings.py::test_the_check_at_the_decision_keeps_strangers_out_of_the_group_by_itself",
        ),
    ),
    Fault(
        "a decision is not written into the ledger",
        "coordinator/rounds.py",
        "        view.set(paths.query(self._request.prefix), payloads.encode_ledger(after))\n",
        "",
        ("unit/coordinator/test_rounds.py", "spec/test_round_laws.py"),
    ),
]

SETTLING = [
    Fault(
        "a settler does not look at the neighbours",
        "coordinator/settler.py",
        "snapshot_zxid=zxid, with_neighbours=True)",
        "snapshot_zxid=zxid, with_neighbours=False)",
        ("unit/coordinator/test_settler.py",),
    ),
    Fault(
        "an open owner is finished",
        "coordinator/settler.py",
        "if state is None or state.outcome is Outcome.OPEN:\n                continue",
        "if state is None:\n                continue",
        ("unit/coordinator/test_settler.py",),
    ),
    Fault(
        "the offsets of an aborted transaction are folded in",
        "protocol/group_offsets.py",
        "if pending.owner == owner and outcome is Outcome.COMMIT:",
        "if pending.owner == owner:",
        ("unit/protocol/test_group_offsets.py",),
    ),
    Fault(
        "an older commit of a group wins",
        "protocol/group_offsets.py",
        "return candidate if current is None or candidate.order >= current.order else current",
        "return candidate",
        ("unit/protocol/test_group_offsets.py",),
    ),
    Fault(
        "an unstable offset is handed out",
        "protocol/group_offsets.py",
        "elif require_stable:",
        "elif False:",
        ("unit/protocol/test_group_offsets.py",),
    ),
    Fault(
        "a group of a sink takes commits of others",
        "coordinator/groups.py",
        "if stored is not None and stored != owning_prefix:",
        "if False:",
        ("unit/coordinator/test_groups.py", "spec/test_round_laws.py"),
    ),
    Fault(
        "expiry takes offsets of a sink",
        "coordinator/group_removal.py",
        "idle_ms > retention_ms and not is_owned and not state.pending",
        "idle_ms > retention_ms and not state.pending",
        ("unit/clients/test_admin_groups.py",),
    ),
    Fault(
        "expiry takes offsets that a transaction has just committed",
        "coordinator/group_removal.py",
        "idle_ms > retention_ms and not is_owned and not state.pending",
        "idle_ms > retention_ms and not is_owned",
        ("spec/test_group_offset_laws.py",),
    ),
    Fault(
        "expiry takes undecided offsets",
        "coordinator/group_removal.py",
        "        if any(groups.undecided_owners(reader, group_id, partition) for partition in partitions):",
        "        if False:",
        ("unit/clients/test_admin_groups.py", "spec/test_group_offset_laws.py"),
    ),
    Fault(
        "offsets of a deleted topic stay",
        "coordinator/group_removal.py",
        "partition.topic_id not in topic_ids or ",
        "",
        ("unit/clients/test_admin_groups.py",),
    ),
    Fault(
        "retention takes unsettled data",
        "log/retention.py",
        "return min((span.first for span in state.owners), default=state.log_end)",
        "return state.log_end",
        ("unit/log/test_retention.py",),
    ),
    Fault(
        "collection takes files that are about to be named",
        "log/collection.py",
        "is_nameless = generations.generation_of(name) < generation - 1",
        "is_nameless = generations.generation_of(name) <= generation",
        ("unit/log/test_collection.py",),
    ),
    Fault(
        "collection takes files that a reader may still hold",
        "log/collection.py",
        " and looked_ms - found_ms >= limits.GENERATION_MIN_AGE_MS:",
        ":",
        ("unit/log/test_collection.py",),
    ),
    Fault(
        "a collection forgets the files that one znode cannot name",
        "log/candidates.py",
        "for number, chunk in enumerate(others[:MAX_PARTS])}",
        "for number, chunk in enumerate(others[:0])}",
        ("unit/log/test_collection.py",),
    ),
    Fault(
        "an interrupted poll counts as read",
        "clients/consumer.py",
        "                if assignment.position != position:",
        "                if False:",
        ("unit/clients/test_consumer.py",),
    ),
    Fault(
        "a file counts as found before its index was looked at",
        "log/collection.py",
        "    looked_ms = now_ms()\n",
        "    looked_ms = began_ms\n",
        ("unit/log/test_collection.py",),
    ),
    Fault(
        "a collection raises the generation while a round of it is open",
        "log/holds.py",
        "(*_open_rounds(reader, now_ms), *live)",
        "live",
        ("unit/log/test_holds.py", "unit/spark/test_driver.py"),
    ),
    Fault(
        "a collection raises the generation while Spark writes files of it",
        "log/holds.py",
        "(*_open_rounds(reader, now_ms), *live)",
        "_open_rounds(reader, now_ms)",
        ("unit/log/test_holds.py", "unit/spark/test_stream_writer.py"),
    ),
    Fault(
        "a round that is overdue holds files for ever",
        "log/holds.py",
        " and now_ms - znode.stat.mtime_ms <= record.timeout_ms:",
        ":",
        ("unit/log/test_holds.py",),
    ),
    Fault(
        "all holds of the dead are removed in one step",
        "log/holds.py",
        "in_parts(list(held), release_some)",
        "release_some(list(held))",
        ("unit/log/test_holds.py",),
    ),
    Fault(
        "a slow collection sets the generation back",
        "log/collection.py",
        " or znode.stat.version != seen.version:",
        ":",
        ("unit/log/test_holds.py",),
    ),
]

FILES = [
    Fault(
        "a file is not fsynced",
        "log/files.py",
        "            os.fsync(self._file.fileno())\n",
        "",
        ("unit/log/test_files.py",),
    ),
    Fault(
        "the folder of a new file is not fsynced",
        "log/files.py",
        "            self._file.close()\n            _sync_folder(self._path.parent)\n",
        "            self._file.close()\n",
        ("unit/log/test_files.py",),
    ),
    Fault(
        "the file is made durable after it is named",
        "clients/sender.py",
        "            _collect(blocks, gathered.flush())\n            writer.finish()\n",
        "            _collect(blocks, gathered.flush())\n",
        ("unit/clients/test_producer.py",),
    ),
    Fault(
        "the CRC of a block is not compared",
        "log/segment.py",
        '    _check_same("crc32", block.crc32, zlib.crc32(data), place)\n',
        "",
        ("unit/log/test_segment_damage.py",),
    ),
    Fault(
        "a block with other records than the index says is read",
        "log/segment.py",
        '    _check_same("count", block.count, decoded.count, place)\n',
        "",
        ("unit/log/test_segment_damage.py", "unit/log/test_segment.py"),
    ),
]

SPARK = [
    Fault(
        "a batch that others aborted is given up",
        "spark/driver.py",
        "            if not is_repeatable:\n                raise\n            return self._run",
        "            raise\n            return self._run",
        ("unit/spark/test_driver.py",),
    ),
    Fault(
        "an offset of another log is accepted",
        "spark/offsets.py",
        "    if offset.cluster_id != cluster_id:\n",
        "    if False:\n",
        ("unit/spark/test_offsets.py",),
    ),
    Fault(
        "a topic that was created again is read on",
        "spark/selection.py",
        "                self.lose(partition)\n        return selected",
        "                pass\n        return selected",
        ("unit/spark/test_stream_reader.py",),
    ),
    Fault(
        "what is no longer selected is passed over",
        "spark/selection.py",
        "                self._leave_out(partition)\n",
        "                pass\n",
        ("unit/spark/test_stream_reader.py",),
    ),
    Fault(
        "retention takes the markers behind the last record",
        "log/retention.py",
        "    while going and going[-1].block is None:\n",
        "    while False:\n",
        ("unit/log/test_retention.py",),
    ),
    Fault(
        "a position goes backwards",
        "spark/offsets.py",
        "else max(before, found.end)",
        "else found.end",
        ("unit/spark/test_offsets.py",),
    ),
    Fault(
        "where a batch starts does not count for a replay",
        "spark/offsets.py",
        '{"starts": [_canonical(text) for text in starts], "ends"',
        '{"ends"',
        ("unit/spark/test_offsets.py",),
    ),
    Fault(
        "the first batch is not empty",
        "spark/source.py",
        "self._is_first_batch_due = not self._has_planned  #",
        "self._is_first_batch_due = False  #",
        ("unit/spark/test_stream_reader.py",),
    ),
    Fault(
        "a replay of the first batch reads from where a query would start now",
        "spark/source.py",
        "            self._is_first_batch_due = False\n            return []",
        "            self._is_first_batch_due = False",
        ("unit/spark/test_stream_reader.py",),
    ),
    Fault(
        "what is available now goes on growing",
        "spark/source.py",
        "self._frozen = self._planner().latest()",
        "self._frozen = None",
        ("unit/spark/test_stream_reader.py",),
    ),
    Fault(
        "an index that was overtaken while it was walked counts as damaged",
        "log/partition_log.py",
        "            if (now.roots, now.log_start) == (state.roots, state.log_start):\n                raise",
        "            raise",
        ("simulation/test_found_bugs.py",),
    ),
    Fault(
        "a topic that never was is taken for a deleted one",
        "spark/selection.py",
        "lambda named: named in names or not is_strict",
        "lambda named: True",
        ("unit/spark/test_stream_reader.py",),
    ),
    Fault(
        "a batch in which a partition appears reads the others",
        "spark/offsets.py",
        "for found in appeared or planned:",
        "for found in planned:",
        ("unit/spark/test_stream_reader.py",),
    ),
    Fault(
        "topics are listed before the snapshot of decisions is read",
        "log/snapshot.py",
        "            zxid = commits_zxid(reader)\n            wanted = list(select(reader))\n",
        "            wanted = list(select(reader))\n            zxid = commits_zxid(reader)\n",
        ("unit/spark/test_stream_reader.py",),
    ),
    Fault(
        "a query that finds new topics all the time never reads",
        "spark/source.py",
        "            self._due = seen  #",
        "            pass  #",
        ("unit/spark/test_stream_reader.py",),
    ),
    Fault(
        "rows that follow a new topic are found a trigger late",
        "spark/source.py",
        "        if end != known:\n            return end",
        "        if due:\n            return end",
        ("unit/spark/test_stream_reader.py",),
    ),
    Fault(
        "a query that waits for rows does not notice a new topic",
        "spark/source.py",
        " or self._frozen is not None or is_news:",
        " or self._frozen is not None:",
        ("unit/spark/test_stream_reader.py",),
    ),
    Fault(
        "a topic that goes while it is planned stops a query that may go on without it",
        "spark/planner.py",
        "            self._selection.lose(partition)\n            return snapshot",
        "            raise\n            return snapshot",
        ("unit/spark/test_stream_reader.py",),
    ),
    Fault(
        "a checkpoint over an older copy of the log is read on",
        "spark/planner.py",
        "if offset > seen.partitions[p].log_end}",
        "if False}",
        ("unit/spark/test_stream_reader.py",),
    ),
    Fault(
        "a position above the log end is not left",
        "clients/consumer.py",
        "if (a.position or 0) > seen.partitions[a.partition].log_end]",
        "if False]",
        ("unit/clients/test_consumer.py",),
    ),
    Fault(
        "an offset above the log end is a lag of nothing",
        "clients/admin.py",
        " and committed.offset > log_end",
        " and False",
        ("unit/clients/test_admin_groups.py",),
    ),
    Fault(
        "a look at the group of a sink waits for its batch",
        "spark/planner.py",
        "require_stable=not is_of_sink",
        "require_stable=True",
        ("unit/spark/test_stream_reader.py",),
    ),
    Fault(
        "offsets that are committed while they are read are torn",
        "coordinator/groups.py",
        "        if _version(reader, group_id) != version:\n            continue\n",
        "",
        ("unit/coordinator/test_groups.py",),
    ),
    Fault(
        "a topic that got smaller while tasks worked is not noticed",
        "spark/driver.py",
        "        if piece.partition >= len(places):\n",
        "        if False:\n",
        ("unit/spark/test_driver.py",),
    ),
    Fault(
        "a topic is missing before a sync",
        "spark/planner.py",
        "        self._store.sync()\n        seen = snapshot.take_selected",
        "        seen = snapshot.take_selected",
        ("unit/spark/test_stream_reader.py",),
    ),
    Fault(
        "a partition with little waits for one with much",
        "spark/planner.py",
        "share = min(room, max(1, max_rows * count // total))",
        "share = min(room, max_rows * count // total)",
        ("unit/spark/test_stream_reader.py",),
    ),
    Fault(
        "a named end shows what is beyond the last stable offset",
        "spark/planner.py",
        "max(min(wanted[p], limits[p]), start)",
        "max(wanted[p], start)",
        ("unit/spark/test_planner.py",),
    ),
    Fault(
        "the ends of a batch read are planned apart",
        "spark/planner.py",
        "[(p, start, max(min(wanted[p], limits[p]), start)) for",
        "[(p, start, self.ends(snapshot.take(self._store, [p]))[p]) for",
        ("unit/spark/test_planner.py",),
    ),
    Fault(
        "tasks name their files by the generation before",
        "spark/driver.py",
        "generation = generations.current(reader)",
        "generation = generations.current(reader) - 1",
        ("unit/spark/test_driver.py",),
    ),
    Fault(
        "a batch that fails leaves its round open",
        "spark/driver.py",
        "                round_.abort()\n",
        "                pass\n",
        ("unit/spark/test_driver.py",),
    ),
    Fault(
        "a batch write that fails leaves its transaction open",
        "spark/driver.py",
        "            coordinator.end_txn(transactional_id, producer, commit=False)\n",
        "            pass\n",
        ("unit/spark/test_driver.py",),
    ),
    Fault(
        "two sinks of one query share a history",
        "spark/driver.py",
        'prefix=f"{prefix}.{options.sink_name}" if options.sink_name else prefix,',
        "prefix=prefix,",
        ("unit/spark/test_driver.py",),
    ),
    Fault(
        "what tasks of two runs wrote is one batch",
        "spark/writer.py",
        "if len(runs) != 1 or None in runs:",
        "if None in runs:",
        ("unit/spark/test_stream_writer.py",),
    ),
]

OPENING = [
    Fault(
        "any folder passes for the log's",
        "runtime.py",
        "        _ensure_folder(store, files, found, root)\n",
        "",
        ("unit/log/test_folder_mark.py",),
    ),
    Fault(
        "tasks are told a relative path",
        "runtime.py",
        "root = absolute(path)",
        "root = str(path)",
        ("unit/test_runtime.py",),
    ),
    Fault(
        "who must not create a store creates one",
        "runtime.py",
        "_ensure_format(store, place, create=create)",
        "_ensure_format(store, place, create=True)",
        ("unit/test_runtime.py",),
    ),
    Fault(
        "metadata that changes while it is copied is copied",
        "znodes/copying.py",
        "                self._check_unmoved(*ours)\n",
        "                pass\n",
        ("unit/znodes/test_copying.py",),
    ),
    Fault(
        "a trim of the old store is taken for one of the new",
        "znodes/copying.py",
        "return payloads.encode_partition(replace(state, trim=0)) if state.trim else znode.data",
        "return znode.data",
        ("unit/znodes/test_copying.py",),
    ),
    Fault(
        "a write to an expired ZooKeeper session was never carried out",
        "znodes/zookeeper/failures.py",
        '"SessionExpiredError": Meaning.NO_ANSWER',
        '"SessionExpiredError": Meaning.NOT_DONE',
        ("unit/znodes/test_zookeeper_urls.py",),
    ),
    Fault(
        "a float is taken for a whole number",
        "arguments.py",
        "isinstance(number, bool) or not isinstance(number, int) or not least",
        "not least",
        ("unit/clients/test_arguments.py",),
    ),
    Fault(
        "a time is stored that Spark cannot show",
        "log/records.py",
        "not 0 <= found <= limits.MAX_TIMESTAMP_MS:",
        "found < 0:",
        ("unit/clients/test_arguments.py::test_a_time_that_no_reader_could_show_is_refused_in_a_batch_too",),
    ),
]

CHECKER = [
    Fault(
        "an offset of a refused transaction passes",
        "testing/checker/groups.py",
        "return self.transaction.outcome != Outcome.ABORTED and is_asked and",
        "return is_asked and",
        ("unit/testing/test_checker.py::test_an_offset_of_a_transaction_whose_commit_was_refused_is_found",),
    ),
    Fault(
        "a plan may end within a transaction of one partition",
        "testing/checker/readers.py",
        "self._part_last = np.maximum.reduceat(last, firsts) % NUMBERS if len(firsts) else firsts",
        "self._part_last = self._part_first",
        ("unit/testing/test_checker.py::test_a_plan_that_ends_within_a_transaction_of_one_partition_is_torn",),
    ),
]

CONNECTOR = [
    Fault(
        "a decision is as young as the copy of its ledger",
        KAFKA + "oncelog_kafka/ledger.py",
        "    age_ms = resolving(lambda: store_now_ms(store)) - found.began_ms\n",
        "    age_ms = 0\n",
        (KAFKA + "tests/test_sink_ledger.py",),
    ),
    Fault(
        "a round of unknown age is a young one",
        KAFKA + "oncelog_kafka/ledger.py",
        "    if found.began_ms is None:\n        return None\n",
        "    if found.began_ms is None:\n        return 0\n",
        (KAFKA + "tests/test_sink_ledger.py",),
    ),
    Fault(
        "a round that began in the future is a young one",
        KAFKA + "oncelog_kafka/ledger.py",
        "return age_ms if age_ms >= 0 else None",
        "return max(age_ms, 0)",
        (KAFKA + "tests/test_sink_ledger.py",),
    ),
    Fault(
        "a batch is decided by a look of whatever age",
        KAFKA + "oncelog_kafka/ledger.py",
        "        check()\n        after = batch",
        "        after = batch",
        (KAFKA + "tests/test_sink_ledger.py",),
    ),
    Fault(
        "a rewritten batch is decided by a look of whatever age",
        KAFKA + "oncelog_kafka/ledger.py",
        "            check()\n            replaced = ",
        "            replaced = ",
        (KAFKA + "tests/test_sink_ledger.py",),
    ),
    Fault(
        "a clock that stood still is believed",
        KAFKA + "oncelog_kafka/participants.py",
        "return max(self.wall_ms - earlier.wall_ms, self.running_ms - earlier.running_ms)",
        "return self.running_ms - earlier.running_ms",
        (KAFKA + "tests/test_sink_participants.py",),
    ),
    Fault(
        "a prefix may be longer with a sink's name",
        KAFKA + "oncelog_kafka/options.py",
        """        _parsed(_SINK_PREFIX, f"{own['transactionalIdPrefix']}.{own['sinkName']}")\n""",
        "        pass\n",
        (KAFKA + "tests/test_sink_options.py",),
    ),
    Fault(
        "half a surrogate is passed on",
        KAFKA + "oncelog_kafka/options.py",
        """if _HALF_SURROGATE.search(f"{name}{raw}"):""",
        "if False:",
        (KAFKA + "tests/test_sink_options.py",),
    ),
    Fault(
        "partitions that the source does not see make its offsets another source's",
        KAFKA + "oncelog_kafka/source_offsets.py",
        '_NO_TOPICS = ("@absent", "@topicIds")',
        '_NO_TOPICS = ("@topicIds",)',
        (KAFKA + "tests/test_sink_source_offsets.py",),
    ),
]

FAULTS = [
    *IDENTITY,
    *ENDING,
    *SEQUENCES,
    *VISIBILITY,
    *APPENDING,
    *STEPS,
    *BATCHES,
    *SETTLING,
    *FILES,
    *SPARK,
    *OPENING,
    *CHECKER,
    *CONNECTOR,
]
