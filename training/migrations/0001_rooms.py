"""Tables of this room as they were when rooms were made; what is older ran the migrations that this replaces."""

import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True
    replaces = [
        ("training", "0001_initial"),
        ("training", "0002_base"),
        ("training", "0003_token_rewards"),
        ("training", "0004_rewrites_rehearsal_pause"),
        ("training", "0005_lines"),
        ("training", "0006_governance"),
        ("training", "0007_demonstrations"),
        ("training", "0008_voted_hint"),
        ("training", "0009_no_moments"),
        ("training", "0010_what_was_passed_over"),
    ]

    dependencies = [
        ('checkpoints', '0001_rooms'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Rehearsal',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('model', models.CharField(db_index=True, max_length=200)),
                ('prompt_ids', models.JSONField()),
                ('response_ids', models.JSONField()),
                ('logprobs', models.JSONField()),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                'ordering': ('pk',),
            },
        ),
        migrations.CreateModel(
            name='Pause',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('reason', models.CharField(blank=True, max_length=200)),
                ('since', models.DateTimeField(default=django.utils.timezone.now)),
                ('until', models.DateTimeField(blank=True, null=True)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ('-since',),
            },
        ),
        migrations.CreateModel(
            name='Run',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('moved_at', models.DateTimeField(db_index=True, default=django.utils.timezone.now)),
                ('status', models.CharField(choices=[('queued', 'Queued'), ('running', 'Running'), ('finished', 'Finished'), ('failed', 'Failed')], db_index=True, default='queued', max_length=12)),
                ('recipe', models.JSONField()),
                ('seed', models.PositiveBigIntegerField(default=0)),
                ('progress', models.JSONField(blank=True, default=dict)),
                ('metrics', models.JSONField(blank=True, default=list)),
                ('code_version', models.CharField(blank=True, max_length=80)),
                ('learned', models.JSONField(blank=True, default=list)),
                ('error', models.TextField(blank=True)),
                ('heartbeat_at', models.DateTimeField(blank=True, null=True)),
                ('asked', models.BooleanField(default=False)),
                ('cancel_asked', models.BooleanField(default=False)),
                ('attempts', models.PositiveSmallIntegerField(default=0)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('started_at', models.DateTimeField(blank=True, null=True)),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
                ('again', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='repeated_by', to='training.run')),
                ('cleaning', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='runs', to='checkpoints.cleaning')),
                ('line', models.ForeignKey(default='shared', on_delete=django.db.models.deletion.PROTECT, related_name='runs', to='checkpoints.line')),
                ('parent', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='runs_from', to='checkpoints.checkpoint')),
            ],
            options={
                'ordering': ('-pk',),
            },
        ),
        migrations.CreateModel(
            name='Sample',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('moved_at', models.DateTimeField(db_index=True, default=django.utils.timezone.now)),
                ('status', models.CharField(choices=[('ready', 'Ready'), ('claimed', 'Claimed'), ('trained', 'Trained'), ('stale', 'Stale')], db_index=True, default='ready', max_length=12)),
                ('origin', models.UUIDField(blank=True, db_index=True, null=True)),
                ('person', models.CharField(blank=True, default='', max_length=64)),
                ('conversation', models.UUIDField(blank=True, null=True)),
                ('prompt_ids', models.JSONField()),
                ('response_ids', models.JSONField()),
                ('mask', models.JSONField(blank=True, default=list)),
                ('behaviour_logprobs', models.JSONField(db_column='old_logprobs')),
                ('sampled_logprobs', models.JSONField(blank=True, default=list)),
                ('temperature', models.FloatField(default=1.0)),
                ('teacher_prompt_ids', models.JSONField(blank=True, null=True)),
                ('voted_hint', models.BooleanField(default=False)),
                ('voted', models.BooleanField(default=False)),
                ('reward', models.FloatField(default=0.0)),
                ('rewards', models.JSONField(blank=True, default=list)),
                ('rewrite_ids', models.JSONField(blank=True, null=True)),
                ('redactions', models.JSONField(blank=True, default=list)),
                ('drop_reason', models.TextField(blank=True)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('checkpoint', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='samples', to='checkpoints.checkpoint')),
                ('line', models.ForeignKey(default='shared', on_delete=django.db.models.deletion.PROTECT, related_name='samples', to='checkpoints.line')),
                ('passed_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='passed_over', to='training.run')),
                ('run', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='samples', to='training.run')),
            ],
            options={
                'ordering': ('pk',),
                'constraints': [models.UniqueConstraint(condition=models.Q(('status__in', ('ready', 'claimed'))), fields=('origin', 'line'), name='one_waits_a_line')],
            },
        ),
    ]
