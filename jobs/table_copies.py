"""Every table of a PostgreSQL database as a file of ``COPY``, read within one snapshot.

Not ``pg_dump``: that has to be installed, and to be as new as the server. The tables themselves come from migrations.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from django.db import connection, transaction
from psycopg import sql
from pydantic import BaseModel

from jobs.database import stay_in_transaction


class TableCopy(BaseModel):
    """One table's file, and what it takes to read it back."""

    table: str
    columns: list[str]
    n_rows: int
    last_id: int | None
    """What its sequence gave last; None where it has none, or gave none."""

    @property
    def file_name(self) -> str:
        return f"{self.table}.copy"


def copy_out(folder: Path) -> list[TableCopy]:
    """Write every table into the folder, all as they are at one moment. Nobody waits for it meanwhile."""
    connection.close()  # the level of isolation is that of a transaction that has asked for nothing yet
    with transaction.atomic(), connection.wrap_database_errors, connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        stay_in_transaction()
        return [_copy_table(cursor, table, folder) for table in sorted(connection.introspection.table_names(cursor))]


def _copy_table(cursor: Any, table: str, folder: Path) -> TableCopy:
    columns = [column.name for column in connection.introspection.get_table_description(cursor, table)]
    last_id = _last_id(cursor, table, columns)
    made = TableCopy(table=table, columns=columns, n_rows=0, last_id=last_id)
    with (folder / made.file_name).open("wb") as file:
        with cursor.copy(_statement("COPY {} ({}) TO STDOUT", made)) as rows:
            for block in rows:
                file.write(block)
        made.n_rows = cursor.rowcount
        file.flush()
        os.fsync(file.fileno())
    return made


def _last_id(cursor: Any, table: str, columns: list[str]) -> int | None:
    if "id" not in columns:
        return None
    cursor.execute(
        "SELECT last_value FROM pg_sequences WHERE pg_get_serial_sequence(%s, 'id')"
        " = quote_ident(schemaname) || '.' || quote_ident(sequencename)",
        [f'"{table}"'],
    )
    row = cursor.fetchone()
    return None if row is None else row[0]


def copy_in(copies: list[TableCopy], folder: Path) -> None:
    """Replace what the tables hold, all or nothing. They are those of the migrations that the copies were made at."""
    with transaction.atomic(), connection.wrap_database_errors, connection.cursor() as cursor:
        stay_in_transaction()
        names = [connection.ops.quote_name(each.table) for each in copies]
        cursor.execute(f"TRUNCATE {', '.join(names)}")
        for each in copies:
            with (
                (folder / each.file_name).open("rb") as file,
                cursor.copy(_statement("COPY {} ({}) FROM STDIN", each)) as rows,
            ):
                while block := file.read(1024 * 1024):
                    rows.write(block)
            if each.last_id is not None:
                cursor.execute("SELECT setval(pg_get_serial_sequence(%s, 'id'), %s)", [f'"{each.table}"', each.last_id])


def _statement(template: str, table: TableCopy) -> sql.Composed:
    columns = sql.SQL(", ").join(sql.Identifier(column) for column in table.columns)
    return sql.SQL(template).format(sql.Identifier(table.table), columns)
