"""The flights as records, and the rows that count as late."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from flights import data, truth


def as_records(*flights: dict[str, Any]) -> pa.Table:
    plain = {"carrier": "UA", "flight": "1545", "tailnum": "N1", "origin": "EWR", "dest": "IAH", "dep_delay": 2}
    table = pa.Table.from_pylist([plain | flight for flight in flights])
    return data.as_records(table.set_column(5, "dep_delay", table["dep_delay"].cast(pa.int32())))


@pytest.mark.slow
def test_the_package_holds_every_flight_of_2013() -> None:
    flights = data.read()

    assert flights.num_rows == 336_776
    assert flights["key"].null_count == flights["value"].null_count == 0
    assert json.loads(flights["value"][0].as_py()) == {name: flights[name][0].as_py() for name in data.FIELDS}


def test_a_record_is_keyed_by_its_aircraft_or_else_its_carrier() -> None:
    assert as_records({"tailnum": "N2"}, {"tailnum": None, "carrier": "AA"})["key"].to_pylist() == ["N2", "AA"]


def test_a_value_is_json_with_the_place_in_the_csv_also_for_a_cancelled_flight() -> None:
    values = [json.loads(value) for value in as_records({"dep_delay": -3}, {"dep_delay": None})["value"].to_pylist()]

    assert values == [
        {"row": 0, "flight": "UA1545", "origin": "EWR", "dest": "IAH", "dep_delay": -3},
        {"row": 1, "flight": "UA1545", "origin": "EWR", "dest": "IAH", "dep_delay": None},
    ]


def test_a_flight_is_late_from_15_minutes_on_and_a_cancelled_one_is_not() -> None:
    flights = as_records({"dep_delay": 14}, {"dep_delay": 15}, {"dep_delay": None}, {"dep_delay": 200})

    assert truth.late_departures(flights)["row"].to_pylist() == [1, 3]
