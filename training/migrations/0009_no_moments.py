from django.db import migrations


def drop(apps, schema_editor):
    """Recipes no longer say how long Adam's moments live: a line's go on from run to run, as they did unless a recipe
    said otherwise. A run that said otherwise cannot be repeated as it was."""
    for name in ("Run", "Line"):
        for one in apps.get_model("training", name).objects.filter(recipe__has_key="moments").only("recipe").iterator():
            del one.recipe["moments"]
            one.save(update_fields=["recipe"])


class Migration(migrations.Migration):

    dependencies = [
        ("training", "0008_voted_hint"),
    ]

    operations = [
        migrations.RunPython(drop, migrations.RunPython.noop),
    ]
