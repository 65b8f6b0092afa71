"""Encodes and decodes ledgers in znodes, and what operators gave up. The target encodes its rounds."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from oncelog.batches.rules import LastBatch, QueryLedger
from oncelog.znodes import fields
from oncelog.znodes.kinds import Kind, Payload


def _ledger_from_json(payload: Payload) -> QueryLedger:
    return QueryLedger(
        query_id=fields.text(payload["query_id"]),
        sink_name=fields.text(payload["sink_name"]),
        run_id=fields.text(payload["run_id"]),
        superseded_runs=fields.several(fields.text, payload["superseded_runs"]),
        current_round=fields.number(payload["current_round"]),
        last=fields.maybe(_last_batch_from_json, payload["last"]),
        group_id=fields.maybe(fields.text, payload["group_id"]),
    )


def _last_batch_from_json(payload: Any) -> LastBatch:
    if {"call_id", *payload} != set(LastBatch.__slots__):
        raise ValueError("unknown or missing fields of a batch")
    return LastBatch(
        batch_id=fields.signed(payload["batch_id"]),
        fingerprint=fields.text(payload["fingerprint"]),
        round=fields.number(payload["round"]),
        run_id=fields.text(payload["run_id"]),
        call_id=fields.maybe(fields.text, payload.get("call_id")),
    )


_ledger: Kind[QueryLedger] = Kind(asdict, _ledger_from_json, QueryLedger.__slots__)

encode_ledger, decode_ledger = _ledger.encode, _ledger.decode


@dataclass(frozen=True, slots=True)
class GivenUp:
    """What an operator gave up of a decided round.

    Attributes:
        round, batch_id: what was decided.
        at_ms: when it was given up, by the store's clock.
        parts: what was given up of it; only the first of many.
        part_count: how many parts there are.
        reason: as the operator gave it.
        operator: the user who ran the command.
        was_shown: a driver committed the batch at the same moment, so nothing is missing.
    """

    round: int
    batch_id: int
    at_ms: int
    parts: tuple[str, ...]
    part_count: int
    reason: str
    operator: str
    was_shown: bool = False


def _given_up_from_json(payload: Payload) -> GivenUp:
    return GivenUp(
        round=fields.number(payload["round"]),
        batch_id=fields.signed(payload["batch_id"]),
        at_ms=fields.number(payload["at_ms"]),
        parts=fields.several(fields.text, payload["parts"]),
        part_count=fields.number(payload["part_count"]),
        reason=fields.text(payload["reason"]),
        operator=fields.text(payload["operator"]),
        was_shown=fields.flag(payload["was_shown"]),
    )


_given_up: Kind[GivenUp] = Kind(asdict, _given_up_from_json, GivenUp.__slots__)

encode_given_up, decode_given_up = _given_up.encode, _given_up.decode
