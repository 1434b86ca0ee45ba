from django.db import migrations


def add_base(apps, schema_editor):
    """The base model is checkpoint 0, so that something is always live."""
    apps.get_model("training", "Checkpoint").objects.get_or_create(number=0, defaults={"kind": "base", "status": "live"})


class Migration(migrations.Migration):
    dependencies = [("training", "0001_initial")]
    operations = [migrations.RunPython(add_base, migrations.RunPython.noop)]
