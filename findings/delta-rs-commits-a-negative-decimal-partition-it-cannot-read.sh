#!/usr/bin/env bash
# delta-rs: a row in a partition of a negative decimal is committed, and from then on the table cannot be opened.
#
# One would guess: a partition value that cannot be written is refused before the commit.
# What happens: -1.23 in a decimal(5,2) partition column is written into the transaction log as the text "-1.-23". The
#   commit is in the log when the write raises, since it reads the new version back and cannot parse that text. Appends and
#   merges do so alike. No later DeltaTable(path) opens the table.
# Whom it bites: tables partitioned by an amount, a balance or a temperature. The error looks like that of a failed write.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "deltalake==1.6.6" "pyarrow==21.0.0"

cat >"$folder/write.py" <<'PYTHON'
import json
import sys
from decimal import Decimal
from pathlib import Path

import deltalake
import pyarrow as pa

ERROR = "Failed to parse value '-1.-23' as 'decimal(5,2)'"
schema = pa.schema([("id", pa.int64()), ("amount", pa.decimal128(5, 2))])
row = pa.table({"id": [1], "amount": [Decimal("-1.23")]}, schema)


def append(folder):
    deltalake.write_deltalake(folder, row, mode="append")


def merge(folder):
    table = deltalake.DeltaTable(folder)
    table.merge(row, "t.id = s.id", source_alias="s", target_alias="t").when_not_matched_insert_all().execute()


def error_of(call, *arguments):
    try:
        call(*arguments)
    except Exception as problem:
        return str(problem).removeprefix("Kernel error: ")
    return "no error"


found = {}
for write in (append, merge):
    folder = Path(sys.argv[1], write.__name__)
    deltalake.DeltaTable.create(str(folder), deltalake.Schema.from_arrow(schema), partition_by=["amount"])
    first = error_of(write, str(folder))
    log = folder / "_delta_log" / f"{1:020}.json"
    adds = [action["add"] for line in log.open() if "add" in (action := json.loads(line))] if log.exists() else []
    found[write.__name__] = [first, [one["partitionValues"] for one in adds], error_of(deltalake.DeltaTable, str(folder))]
    print(f"{write.__name__}: {first}; committed: {found[write.__name__][1]}; opened again: {found[write.__name__][2]}")

print(f"deltalake {deltalake.__version__}")
expected = [ERROR, [{"amount": "-1.-23"}], ERROR]
sys.exit(0 if found == {"append": expected, "merge": expected} else "the behaviour has changed")
PYTHON
"$folder/venv/bin/python" "$folder/write.py" "$folder"
