from django.db import migrations, models


class Migration(migrations.Migration):
    """An index out of which pages count samples, without reading them."""

    dependencies = [("training", "0006_usage_notes_and_tags")]

    operations = [
        migrations.AddIndex(
            model_name="sample", index=models.Index(fields=["status", "moved_at"], name="samples_by_state")
        ),
    ]
