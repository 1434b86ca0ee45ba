from django.db import migrations
from django.db.models import OuterRef, Q, Subquery


def name_origins(apps, schema_editor):
    """Samples made before lines know the turn that they were made of by the verdict alone."""
    judgements = apps.get_model("judge", "Judgement").objects.filter(Q(sample=OuterRef("pk")) | Q(learned=OuterRef("pk")))
    samples = apps.get_model("training", "Sample").objects.filter(origin=None)
    made = samples.filter(Q(judgement__isnull=False) | Q(first_judgement__isnull=False))
    made.update(origin=Subquery(judgements.order_by().values("turn")[:1]))


class Migration(migrations.Migration):
    dependencies = [("judge", "0005_long_hints"), ("training", "0005_lines")]
    operations = [migrations.RunPython(name_origins, migrations.RunPython.noop)]
