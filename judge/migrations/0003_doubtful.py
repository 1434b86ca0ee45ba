from django.db import migrations, models


class Migration(migrations.Migration):
    """An index by which verdicts that are worth a second look are found, without reading all others."""

    dependencies = [("judge", "0002_annotators")]

    operations = [
        migrations.AddIndex(
            model_name="judgement",
            index=models.Index(fields=["reward_from", "confidence", "reward"], name="judgements_by_source"),
        ),
    ]
