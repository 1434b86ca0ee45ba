"""The shared line, and the base model as checkpoint 0, so that something is always live."""

from django.db import migrations


def add(apps, schema_editor):
    apps.get_model("checkpoints", "Line").objects.get_or_create(name="shared", defaults={"title": "Shared"})
    checkpoints = apps.get_model("checkpoints", "Checkpoint").objects
    checkpoints.get_or_create(number=0, defaults={"kind": "base", "status": "live", "line_id": "shared"})


class Migration(migrations.Migration):
    replaces = [
        ("training", "0001_initial"),
        ("training", "0002_base"),
        ("training", "0003_token_rewards"),
        ("training", "0004_rewrites_rehearsal_pause"),
        ("training", "0005_lines"),
        ("training", "0006_governance"),
        ("training", "0007_demonstrations"),
        ("training", "0008_voted_hint"),
        ("training", "0009_no_moments"),
        ("training", "0010_what_was_passed_over"),
    ]

    dependencies = [("checkpoints", "0002_rooms")]
    operations = [migrations.RunPython(add, migrations.RunPython.noop)]
