"""Each run is told the checkpoint that named it."""

from django.db import migrations


def turn_round(apps, schema_editor):
    runs = apps.get_model("training", "Run").objects
    named = apps.get_model("checkpoints", "Checkpoint").objects.filter(run_id__isnull=False)
    for checkpoint, run in list(named.values_list("pk", "run_id")):
        runs.filter(pk=run).update(checkpoint_id=checkpoint)


class Migration(migrations.Migration):
    dependencies = [("training", "0002_run_names_its_checkpoint")]
    operations = [migrations.RunPython(turn_round, migrations.RunPython.noop)]
