"""Tables of this room as they were when rooms were made; what is older ran the migrations that this replaces."""

import django.db.models.deletion
import django.utils.timezone
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
        ('chat', '0001_rooms'),
        ('checkpoints', '0001_rooms'),
    ]

    operations = [
        migrations.CreateModel(
            name='Examination',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('progress', models.JSONField(blank=True, default=dict)),
                ('pairs', models.JSONField(blank=True, default=list)),
                ('checks', models.JSONField(blank=True, default=list)),
                ('pack', models.JSONField(blank=True, default=list)),
                ('personal', models.JSONField(blank=True, default=list)),
                ('meter', models.JSONField(blank=True, default=dict)),
                ('passed', models.BooleanField(null=True)),
                ('started_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
                ('against', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='checkpoints.checkpoint')),
                ('checkpoint', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='examination', to='checkpoints.checkpoint')),
            ],
            options={
                'db_table': 'judge_examination',
            },
        ),
        migrations.CreateModel(
            name='AskedAgain',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('live', models.TextField(blank=True)),
                ('candidate', models.TextField(blank=True)),
                ('cut', models.JSONField(blank=True, default=list)),
                ('at', models.DateTimeField(default=django.utils.timezone.now)),
                ('turn', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='asked_again', to='chat.turn')),
                ('examination', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='asked_again', to='gate.examination')),
            ],
            options={
                'db_table': 'judge_askedagain',
                'ordering': ('-turn__created_at', '-pk'),
                'constraints': [models.UniqueConstraint(fields=('examination', 'turn'), name='asked_again_once')],
            },
        ),
    ]
