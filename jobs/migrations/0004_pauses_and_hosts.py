"""What a paused job waits for, hosts, and why a device is out of service.

Processes of the version before go on while this is applied, and after it: supervisors of running trainings. So new columns
have defaults of the database, and the column that is not used any more stays until the version after this one.
"""

from django.db import migrations, models
from django.db.models.functions import Now


def carry_over(apps, schema_editor):
    apps.get_model("jobs", "Job").objects.filter(resume_at_start=True).update(resumes_when="server")


class Migration(migrations.Migration):
    dependencies = [("jobs", "0003_export_overrides")]

    operations = [
        migrations.CreateModel(
            name="Host",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=200, unique=True)),
                ("boot_id", models.CharField(blank=True, default="", max_length=64)),
                ("seen_at", models.DateTimeField()),
                ("clock_ahead_s", models.FloatField(default=0.0)),
                ("versions", models.JSONField(default=dict)),
                ("joined_at", models.DateTimeField(db_default=Now())),
            ],
        ),
        migrations.AddField(
            model_name="device",
            name="drained_reason",
            field=models.CharField(blank=True, db_default="", default="", max_length=300),
        ),
        migrations.AddField(
            model_name="job",
            name="resumes_when",
            field=models.CharField(
                blank=True,
                choices=[("server", "Server"), ("disk", "Disk")],
                db_default="",
                default="",
                max_length=8,
            ),
        ),
        migrations.AlterField(
            model_name="job", name="resume_at_start", field=models.BooleanField(db_default=False, default=False)
        ),
        migrations.RunPython(carry_over, migrations.RunPython.noop),
        migrations.SeparateDatabaseAndState(
            state_operations=[migrations.RemoveField(model_name="job", name="resume_at_start")]
        ),
    ]
