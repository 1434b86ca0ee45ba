"""Rename fields by the glossary. Columns keep their names, so nothing is written to the database."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("training", "0011_run_names_its_checkpoint")]

    operations = [
        migrations.AlterField("sample", "old_logprobs", models.JSONField(db_column="old_logprobs")),
        migrations.RenameField("sample", "old_logprobs", "behaviour_logprobs"),
        migrations.AlterField("checkpoint", "is_held", models.BooleanField(db_column="is_held", default=False)),
        migrations.RenameField("checkpoint", "is_held", "is_on_hold"),
    ]
