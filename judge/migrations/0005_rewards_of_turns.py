from django.db import migrations, models


class Migration(migrations.Migration):
    """Indexes out of which alone is found what is unclear: of which samples turns became, with their rewards; and two
    of verdicts that are worth a second look, with their turns."""

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
        migrations.RemoveIndex(model_name="judgement", name="judgements_by_source"),
        migrations.AddIndex(
            model_name="judgement",
            index=models.Index(fields=["reward_from", "confidence", "reward", "turn"], name="judgements_by_source"),
        ),
        migrations.AddIndex(
            model_name="judgement", index=models.Index(fields=["reason_code", "turn"], name="judgements_by_reason")
        ),
        migrations.AlterField(
            model_name="judgement", name="reason_code", field=models.CharField(blank=True, max_length=24)
        ),
    ]
