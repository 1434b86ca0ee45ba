"""A checkpoint names no run any more: the run names it."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("checkpoints", "0003_first_rows"), ("training", "0003_turn_round")]
    operations = [migrations.RemoveField("checkpoint", "run")]
