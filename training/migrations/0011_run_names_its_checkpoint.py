"""A run names the checkpoint that it made; until now the checkpoint named its run."""

import django.db.models.deletion
from django.db import migrations, models


def turn_round(apps, schema_editor):
    run = apps.get_model("training", "Run")
    for checkpoint in apps.get_model("training", "Checkpoint").objects.exclude(run=None).only("pk", "run_id"):
        run.objects.filter(pk=checkpoint.run_id).update(checkpoint=checkpoint.pk)


def checkpoint(related_name):
    return models.OneToOneField(
        blank=True, null=True, on_delete=django.db.models.deletion.PROTECT,
        related_name=related_name, to="training.checkpoint",
    )  # fmt: skip


class Migration(migrations.Migration):
    dependencies = [("training", "0010_what_was_passed_over")]
    operations = [
        migrations.AddField("run", "checkpoint", checkpoint("+")),
        migrations.RunPython(turn_round, migrations.RunPython.noop),
        migrations.RemoveField("checkpoint", "run"),
        migrations.AlterField("run", "checkpoint", checkpoint("run")),
    ]
