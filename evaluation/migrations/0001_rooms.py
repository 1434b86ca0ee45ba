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
        ('chat', '0001_rooms'),
        ('checkpoints', '0001_rooms'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Comparison',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('moved_at', models.DateTimeField(db_index=True, default=django.utils.timezone.now)),
                ('status', models.CharField(choices=[('queued', 'Queued'), ('answered', 'Answered'), ('failed', 'Failed')], db_index=True, default='queued', max_length=12)),
                ('prompts', models.JSONField(default=list)),
                ('replies', models.JSONField(blank=True, default=list)),
                ('distances', models.JSONField(blank=True, default=list)),
                ('revealed_to', models.JSONField(blank=True, default=list)),
                ('error', models.TextField(blank=True)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('first', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='compared_first', to='checkpoints.checkpoint')),
                ('second', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='compared_second', to='checkpoints.checkpoint')),
            ],
            options={
                'db_table': 'judge_comparison',
                'ordering': ('-pk',),
            },
        ),
        migrations.CreateModel(
            name='Shadow',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('text', models.TextField(blank=True)),
                ('response_ids', models.JSONField(blank=True, default=list)),
                ('finish_reason', models.CharField(blank=True, max_length=16)),
                ('figures', models.JSONField(blank=True, default=dict)),
                ('at', models.DateTimeField(default=django.utils.timezone.now)),
                ('checkpoint', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='shadows', to='checkpoints.checkpoint')),
                ('turn', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='shadows', to='chat.turn')),
            ],
            options={
                'db_table': 'judge_shadow',
                'ordering': ('-at', '-pk'),
            },
        ),
        migrations.CreateModel(
            name='BlindChoice',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('picked', models.CharField(choices=[('reply', 'Reply'), ('shadow', 'Shadow'), ('skipped', 'Skipped')], max_length=8)),
                ('at', models.DateTimeField(default=django.utils.timezone.now)),
                ('by', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='blind_choices', to=settings.AUTH_USER_MODEL)),
                ('shadow', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='choices', to='evaluation.shadow')),
            ],
            options={
                'db_table': 'judge_blindchoice',
                'ordering': ('-at', '-pk'),
            },
        ),
        migrations.CreateModel(
            name='Choice',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('place', models.PositiveSmallIntegerField()),
                ('picked', models.CharField(choices=[('first', 'First'), ('second', 'Second'), ('same', 'Same')], max_length=8)),
                ('at', models.DateTimeField(default=django.utils.timezone.now)),
                ('by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('comparison', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='choices', to='evaluation.comparison')),
            ],
            options={
                'db_table': 'judge_choice',
                'ordering': ('pk',),
                'constraints': [models.UniqueConstraint(fields=('comparison', 'place', 'by'), name='one_pick_a_person')],
            },
        ),
        migrations.AddConstraint(
            model_name='shadow',
            constraint=models.UniqueConstraint(fields=('turn', 'checkpoint'), name='one_shadow_a_checkpoint'),
        ),
        migrations.AddConstraint(
            model_name='blindchoice',
            constraint=models.UniqueConstraint(fields=('shadow', 'by'), name='one_blind_choice_a_person'),
        ),
    ]
