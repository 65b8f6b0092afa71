"""Encodes and decodes ledgers in znodes. The target encodes its rounds."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from oncelog.protocol.batch_ledger import LastBatch, QueryLedger
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
    if payload.keys() != set(LastBatch.__slots__):
        raise ValueError("unknown or missing fields of a batch")
    return LastBatch(
        batch_id=fields.signed(payload["batch_id"]),
        fingerprint=fields.text(payload["fingerprint"]),
        round=fields.number(payload["round"]),
        run_id=fields.text(payload["run_id"]),
    )


_ledger: Kind[QueryLedger] = Kind(asdict, _ledger_from_json, QueryLedger.__slots__)

encode_ledger, decode_ledger = _ledger.encode, _ledger.decode
