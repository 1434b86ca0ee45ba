from django.db import migrations


def drop(apps, schema_editor):
    """Recipes no longer say how long Adam's moments live: a line's go on from run to run, as they always did by default."""
    for name in ("Run", "Line"):
        for one in apps.get_model("training", name).objects.filter(recipe__has_key="moments"):
            del one.recipe["moments"]
            one.save(update_fields=["recipe"])


class Migration(migrations.Migration):

    dependencies = [
        ("training", "0008_voted_hint"),
    ]

    operations = [
        migrations.RunPython(drop, migrations.RunPython.noop),
    ]
