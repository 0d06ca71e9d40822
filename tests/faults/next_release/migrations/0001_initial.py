from __future__ import annotations

from django.db import migrations


def _column(table: str) -> migrations.RunSQL:
    return migrations.RunSQL(
        f"ALTER TABLE {table} ADD COLUMN of_next_release integer NOT NULL DEFAULT 0",
        f"ALTER TABLE {table} DROP COLUMN of_next_release",
    )


class Migration(migrations.Migration):
    """A column with a default in each table that a running job writes to."""

    dependencies = [("jobs", "0004_pauses_and_hosts")]
    operations = [_column(table) for table in ("jobs_job", "jobs_attempt", "jobs_transition", "jobs_jobevent")]
