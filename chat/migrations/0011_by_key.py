from django.db import migrations, models


class Migration(migrations.Migration):
    """An index out of which is read whether a turn that another row names may teach, without reading the turn."""

    dependencies = [("chat", "0010_leases")]

    operations = [
        migrations.AddIndex(
            model_name="turn",
            index=models.Index(fields=["id", "status", "learns", "line", "session"], name="turns_by_key"),
        ),
    ]
