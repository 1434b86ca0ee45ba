"""Corrected questions that the gate asks again. They go with their turns."""

import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("judge", "0011_probabilities"), ("chat", "0001_initial")]

    operations = [
        migrations.CreateModel(
            name="AskedAgain",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("live", models.TextField(blank=True)),
                ("candidate", models.TextField(blank=True)),
                ("cut", models.JSONField(blank=True, default=list)),
                ("at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "examination",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="asked_again",
                        to="judge.examination",
                    ),
                ),
                (
                    "turn",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="asked_again", to="chat.turn"
                    ),
                ),
            ],
            options={
                "ordering": ("-turn__created_at", "-pk"),
                "constraints": [
                    models.UniqueConstraint(fields=("examination", "turn"), name="asked_again_once"),
                ],
            },
        ),
    ]
