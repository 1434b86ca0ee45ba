"""What a line has learned since one of its runs is found by line and run."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("training", "0009_samples_of_lines")]

    operations = [
        migrations.AddIndex("sample", models.Index(fields=("line", "run"), name="samples_learned_in_lines")),
    ]
