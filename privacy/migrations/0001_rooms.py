"""Tables of this room as they were when rooms were made; what is older ran the migrations that this replaces."""

import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True
    replaces = [
        ("judge", "0001_initial"),
        ("judge", "0002_evidence_and_sittings"),
        ("judge", "0003_review"),
        ("judge", "0004_calibration"),
        ("judge", "0005_long_hints"),
        ("judge", "0006_origins"),
        ("judge", "0007_governance"),
        ("judge", "0008_blind_choice"),
        ("judge", "0009_compared"),
        ("judge", "0011_probabilities"),
        ("judge", "0012_asked_again"),
    ]

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Erasure',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('moved_at', models.DateTimeField(db_index=True, default=django.utils.timezone.now)),
                ('status', models.CharField(choices=[('asked', 'Asked'), ('done', 'Done')], db_index=True, default='asked', max_length=8)),
                ('total', models.PositiveIntegerField()),
                ('gone', models.JSONField(blank=True, default=dict)),
                ('checkpoints', models.JSONField(blank=True, default=list)),
                ('asked_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('done_at', models.DateTimeField(blank=True, null=True)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='erasures', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'db_table': 'judge_erasure',
                'ordering': ('-pk',),
                'constraints': [models.UniqueConstraint(condition=models.Q(('status', 'asked')), fields=('user',), name='one_erasure_at_a_time')],
            },
        ),
    ]
