"""Checkpoints know what they are compared in: retention holds the weights of those that wait. No column moves."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("judge", "0008_blind_choice"), ("training", "0006_governance")]

    operations = [
        migrations.AlterField(
            model_name="comparison",
            name=side,
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name=f"compared_{side}",
                to="training.checkpoint",
            ),
        )
        for side in ("first", "second")
    ]
