"""The table in which django-allauth counts wrong codes and keeps used ones (settings.CACHES)."""

from django.core.management import call_command
from django.db import migrations


def make_table(apps, schema_editor):
    call_command("createcachetable", database=schema_editor.connection.alias, verbosity=0)


class Migration(migrations.Migration):
    dependencies = [("accounts", "0002_roles")]
    operations = [migrations.RunPython(make_table, migrations.RunPython.noop)]
