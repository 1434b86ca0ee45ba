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
        ('chat', '0002_rooms'),
        ('training', '0001_rooms'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Sitting',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('matter', models.CharField(max_length=80, unique=True)),
                ('until', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='Acceptance',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('source', models.CharField(choices=[('person', 'Person'), ('said', 'Said'), ('user', 'User'), ('environment', 'Environment'), ('test', 'Test'), ('tool', 'Tool'), ('file', 'File'), ('web', 'Web')], max_length=12, unique=True)),
                ('above', models.FloatField(blank=True, null=True)),
                ('changed_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('changed_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='GoldReading',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('item', models.CharField(max_length=80)),
                ('gold', models.CharField(max_length=16)),
                ('judge', models.CharField(max_length=120)),
                ('prompt_version', models.CharField(max_length=40)),
                ('role', models.CharField(max_length=12)),
                ('expected', models.SmallIntegerField()),
                ('score', models.SmallIntegerField(blank=True, null=True)),
                ('confidence', models.FloatField(blank=True, null=True)),
                ('wants_hint', models.BooleanField(null=True)),
                ('hint', models.TextField(blank=True)),
                ('raw', models.JSONField(blank=True, default=list)),
                ('seconds', models.FloatField(default=0)),
                ('tokens', models.PositiveIntegerField(default=0)),
                ('prompt_tokens', models.PositiveIntegerField(default=0)),
                ('cached_tokens', models.PositiveIntegerField(default=0)),
                ('read_at', models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                'ordering': ('-read_at', '-pk'),
                'indexes': [models.Index(fields=['judge', 'prompt_version'], name='gold_readings_by_judge')],
            },
        ),
        migrations.CreateModel(
            name='Hint',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('moved_at', models.DateTimeField(db_index=True, default=django.utils.timezone.now)),
                ('status', models.CharField(choices=[('waiting', 'Waiting'), ('accepted', 'Accepted'), ('edited', 'Edited'), ('merged', 'Merged'), ('rejected', 'Rejected')], db_index=True, default='waiting', max_length=12)),
                ('source', models.CharField(choices=[('person', 'Person'), ('said', 'Said'), ('user', 'User'), ('environment', 'Environment'), ('test', 'Test'), ('tool', 'Tool'), ('file', 'File'), ('web', 'Web')], max_length=12)),
                ('proposed', models.TextField()),
                ('text', models.TextField()),
                ('evidence', models.CharField(blank=True, max_length=16)),
                ('confidence', models.FloatField(blank=True, null=True)),
                ('gain', models.FloatField(blank=True, null=True)),
                ('teacher', models.JSONField(blank=True, default=dict)),
                ('conflicts', models.JSONField(blank=True, default=list)),
                ('waits_because', models.CharField(blank=True, max_length=200)),
                ('decided_at', models.DateTimeField(blank=True, null=True)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('decided_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('merged_into', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='merged', to='judge.hint')),
                ('turn', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='hints', to='chat.turn')),
            ],
            options={
                'ordering': ('-created_at', '-pk'),
            },
        ),
        migrations.CreateModel(
            name='Judgement',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('reward', models.SmallIntegerField(blank=True, null=True)),
                ('reward_from', models.CharField(blank=True, max_length=12)),
                ('confidence', models.FloatField(blank=True, null=True)),
                ('topic', models.CharField(blank=True, max_length=8)),
                ('hint', models.TextField(blank=True)),
                ('hint_from', models.CharField(blank=True, max_length=12)),
                ('teacher', models.JSONField(blank=True, default=dict)),
                ('reason', models.CharField(blank=True, max_length=200)),
                ('reason_code', models.CharField(blank=True, db_index=True, max_length=24)),
                ('rule', models.CharField(blank=True, max_length=40)),
                ('evidence', models.TextField(blank=True)),
                ('held_out', models.BooleanField(db_index=True, default=False)),
                ('judged_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('learned', models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='first_judgement', to='training.sample')),
                ('sample', models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='judgement', to='training.sample')),
                ('turn', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='judgement', to='chat.turn')),
            ],
        ),
        migrations.CreateModel(
            name='Overruling',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('reward', models.SmallIntegerField(blank=True, null=True)),
                ('reason', models.TextField()),
                ('at', models.DateTimeField(default=django.utils.timezone.now)),
                ('by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('turn', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='overruling', to='chat.turn')),
            ],
        ),
        migrations.CreateModel(
            name='Ruling',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('verb', models.CharField(choices=[('accept', 'Accept'), ('edit', 'Edit'), ('merge', 'Merge'), ('reject', 'Reject'), ('never learn', 'Never Learn'), ('overturn', 'Overturn'), ('undo', 'Undo'), ('policy', 'Policy')], max_length=12)),
                ('before', models.JSONField(blank=True, default=dict)),
                ('after', models.JSONField(blank=True, default=dict)),
                ('reason', models.TextField(blank=True)),
                ('bulk', models.UUIDField(blank=True, db_index=True, null=True)),
                ('at', models.DateTimeField(default=django.utils.timezone.now)),
                ('by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('hint', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='rulings', to='judge.hint')),
                ('turn', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='rulings', to='chat.turn')),
                ('undoes', models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='undone_by', to='judge.ruling')),
            ],
            options={
                'ordering': ('-at', '-pk'),
            },
        ),
        migrations.CreateModel(
            name='Vote',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('question', models.CharField(choices=[('score', 'Score'), ('hint', 'Hint')], max_length=5)),
                ('index', models.PositiveSmallIntegerField()),
                ('judge', models.CharField(max_length=120)),
                ('prompt_version', models.CharField(max_length=40)),
                ('role', models.CharField(blank=True, max_length=12)),
                ('weight', models.FloatField(default=1.0)),
                ('evidence', models.CharField(blank=True, max_length=16)),
                ('raw', models.TextField(blank=True)),
                ('score', models.SmallIntegerField(blank=True, null=True)),
                ('topic', models.CharField(blank=True, max_length=8)),
                ('probabilities', models.JSONField(blank=True, default=dict)),
                ('hint', models.TextField(blank=True)),
                ('failure', models.CharField(blank=True, max_length=200)),
                ('seconds', models.FloatField(default=0)),
                ('tokens', models.PositiveIntegerField(default=0)),
                ('prompt_tokens', models.PositiveIntegerField(default=0)),
                ('cached_tokens', models.PositiveIntegerField(default=0)),
                ('cast_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('turn', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='votes', to='chat.turn')),
            ],
            options={
                'ordering': ('question', 'index', 'pk'),
            },
        ),
        migrations.CreateModel(
            name='Measuring',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('judge', models.CharField(max_length=120)),
                ('votes', models.PositiveSmallIntegerField()),
                ('total', models.PositiveIntegerField()),
                ('anew', models.BooleanField(default=True)),
                ('asked_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
                ('failure', models.CharField(blank=True, max_length=200)),
                ('asked_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ('-asked_at', '-pk'),
                'constraints': [models.UniqueConstraint(condition=models.Q(('finished_at', None)), fields=('judge',), name='one_measuring_at_a_time')],
            },
        ),
    ]
