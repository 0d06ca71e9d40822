"""What is wrong with a device, and who else uses it. With defaults of the database, for agents of the version before."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0007_submissions")]

    operations = [
        migrations.AddField(
            model_name="device", name="lost", field=models.BooleanField(db_default=False, default=False)
        ),
        migrations.AddField(
            model_name="device", name="strangers", field=models.JSONField(db_default=[], default=list)
        ),
        migrations.AddField(
            model_name="device",
            name="warning",
            field=models.CharField(blank=True, db_default="", default="", max_length=300),
        ),
    ]
