from django.db import migrations, models


class Migration(migrations.Migration):
    """An index out of which is read which samples turns became: a verdict's row holds what the judge read."""

    dependencies = [("judge", "0003_doubtful")]

    operations = [
        migrations.AddIndex(
            model_name="judgement",
            index=models.Index(fields=["turn", "sample", "learned"], name="judgements_of_turns"),
        ),
    ]
