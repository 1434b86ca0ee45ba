"""A run names the checkpoint that it made; until now the checkpoint named its run."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("training", "0001_rooms"), ("checkpoints", "0003_first_rows")]
    operations = [
        migrations.AddField(
            "run",
            "checkpoint",
            models.OneToOneField(
                blank=True, null=True, on_delete=django.db.models.deletion.PROTECT,
                related_name="run", to="checkpoints.checkpoint",
            ),
        ),
    ]
