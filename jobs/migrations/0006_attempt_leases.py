"""Until when an attempt is held. Null where it has no lease, as supervisors of the version before leave it."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0005_trashed_by")]

    operations = [
        migrations.AddField(
            model_name="attempt",
            name="lease_expires_at",
            field=models.DateTimeField(null=True),
        ),
    ]
