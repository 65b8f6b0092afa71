"""The rows that the tasks of a batch have staged: how they are checked before the decision, and how they are inserted.

Only the rows of the tries that won count.
"""

from __future__ import annotations

from collections.abc import Sequence

from oncelog.errors import InvalidRecordError
from oncelog.spark.kit.upserts import key_twice, key_without_value
from oncelog_postgres.columns import StagedColumn
from oncelog_postgres.database import Database, Sql, listed, name, text, type_name
from oncelog_postgres.insertion import Insertion
from oncelog_postgres.kept import CONVERTED
from oncelog_postgres.staging import TOKEN
from oncelog_postgres.tables import Table


def refuse_losses(database: Database, insertion: Insertion, planned: Sequence[StagedColumn]) -> None:
    """Refuse staged texts that PostgreSQL would round or cut without an error when it inserts them."""
    for column in planned:
        if column.loss is None:
            continue
        narrow, wide = map(type_name, column.loss)
        losing = text(
            "SELECT {c}::text {winners} AND CAST(CAST({c} AS {narrow}) AS {wide}) <> CAST({c} AS {wide}) LIMIT 1",
            c=name(column.name),
            winners=winners(insertion),
            narrow=narrow,
            wide=wide,
        )
        with database.transaction():
            found = database.rows(losing, table=str(insertion.table), column=column.name)
        if found:
            raise InvalidRecordError(
                CONVERTED,
                column=column.name,
                value=found[0][0],
                table=str(insertion.table),
                table_type=column.kept.type,
            )


def refuse_keys_without_value(database: Database, insertion: Insertion, table: Table) -> None:
    """Null is equal to nothing: each such row would be added, and none replaced."""
    nullable = [column.name for column in table.columns if column.is_nullable]
    keys = [column for column in insertion.key_columns if column in nullable]
    if not keys:
        return
    are_null = listed((text("{key} IS NULL", key=name(key)) for key in keys), " OR ")
    found = text("SELECT 1 {winners} AND ({are_null}) LIMIT 1", winners=winners(insertion), are_null=are_null)
    with database.transaction():
        is_found = database.rows(found)
    if is_found:
        raise key_without_value(table=str(insertion.table), columns=keys)


def same_key(database: Database, insertion: Insertion) -> InvalidRecordError | None:
    """The error for rows of one batch with the same key; None if they only look the same to the table."""
    keys = [name(column) for column in insertion.key_columns]
    shown = listed([text("to_jsonb({key})", key=key) for key in keys])
    twice = text(
        "SELECT {shown} {winners} GROUP BY {keys} HAVING count(*) > 1 LIMIT 1",
        shown=shown,
        winners=winners(insertion),
        keys=listed(keys),
    )
    with database.transaction():
        found = database.rows(twice)
    if not found:
        return None
    return key_twice(table=str(insertion.table), key=dict(zip(insertion.key_columns, found[0], strict=True)))


def winners(insertion: Insertion) -> Sql:
    """The rows of the tasks that won, from FROM on."""
    return text(
        "FROM {staging} WHERE {token} = ANY({tokens}::bigint[])",
        staging=name(insertion.schema, insertion.staging),
        token=name(TOKEN),
        tokens=insertion.tokens,
    )


def statement(insertion: Insertion) -> Sql:
    """The statement that inserts the rows of the tasks that won."""
    targets = [name(column) for column, _ in insertion.columns]
    staged = [
        name(column) if cast is None else text("CAST({c} AS {t})", c=name(column), t=type_name(cast))
        for column, cast in insertion.columns
    ]
    return text(
        "INSERT INTO {table} ({targets}) SELECT {staged} {winners}{conflict}",
        table=name(*insertion.table.parts),
        targets=listed(targets),
        staged=listed(staged),
        winners=winners(insertion),
        conflict=_on_conflict(insertion) if insertion.key_columns else text(""),
    )


def _on_conflict(insertion: Insertion) -> Sql:
    """A row takes the place of that with its key.

    Without other columns the key is replaced by itself, so that PostgreSQL refuses two equal keys there, too.
    """
    replaced = [column for column, _ in insertion.columns if column not in insertion.key_columns]
    sets = [text("{c} = EXCLUDED.{c}", c=name(column)) for column in replaced or insertion.key_columns]
    keys = listed([name(column) for column in insertion.key_columns])
    return text(" ON CONFLICT ({keys}) DO UPDATE SET {sets}", keys=keys, sets=listed(sets))
