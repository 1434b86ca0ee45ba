from django.db import migrations, models


class Migration(migrations.Migration):
    """The index of which samples turns became holds their rewards too: what is unclear is found out of it alone."""

    dependencies = [("judge", "0004_of_turns")]

    operations = [
        migrations.RemoveIndex(model_name="judgement", name="judgements_of_turns"),
        migrations.AddIndex(
            model_name="judgement",
            index=models.Index(
                fields=[
                    *("turn", "sample", "learned", "reward", "reward_from", "confidence", "reason_code", "judged_at"),
                ],
                name="judgements_of_turns",
            ),
        ),
    ]
