from django.db import migrations, models


class Migration(migrations.Migration):
    """An index out of which pages count what runs learned, without reading it."""

    dependencies = [("training", "0007_counted")]

    operations = [
        migrations.AddIndex(
            model_name="sample", index=models.Index(fields=["run", "status", "origin"], name="samples_of_runs")
        ),
    ]
