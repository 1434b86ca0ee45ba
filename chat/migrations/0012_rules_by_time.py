"""The newest turns that a rule sorted are found without reading those that none did."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("chat", "0011_by_key")]

    operations = [
        migrations.RemoveIndex(model_name="turn", name="turns_by_time"),
        migrations.AddIndex(
            model_name="turn", index=models.Index(fields=["created_at", "rule", "id"], name="turns_by_time")
        ),
    ]
