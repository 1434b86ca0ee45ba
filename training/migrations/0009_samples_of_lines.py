"""What a line's next run could claim is found by line and state."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("training", "0008_runs_counted")]

    operations = [
        migrations.AddIndex("sample", models.Index(fields=("line", "status"), name="samples_of_lines")),
    ]
