"""Which id the next row of a table gets, after rows were written under ids of their own."""

from __future__ import annotations

from django.db import connection, models


def reserve_ids(model: type[models.Model], up_to: int = 0) -> None:
    """No new row gets an id that exists, or one up to ``up_to``."""
    newest = model._default_manager.order_by("-pk").values_list("pk", flat=True).first() or 0
    last = max(newest, up_to)
    if not last:
        return
    table = model._meta.db_table
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("DELETE FROM sqlite_sequence WHERE name = %s", [table])
            cursor.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (%s, %s)", [table, last])
        else:
            cursor.execute("SELECT setval(pg_get_serial_sequence(%s, 'id'), %s)", [table, last])
