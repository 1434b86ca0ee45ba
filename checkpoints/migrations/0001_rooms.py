"""Tables of this room as they were when rooms were made; what is older ran the migrations that this replaces."""

import django.db.models.deletion
import django.utils.timezone
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
    ]

    operations = [
        migrations.CreateModel(
            name='Cleaning',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('moved_at', models.DateTimeField(db_index=True, default=django.utils.timezone.now)),
                ('status', models.CharField(choices=[('queued', 'Queued'), ('running', 'Running'), ('finished', 'Finished'), ('failed', 'Failed')], db_index=True, default='queued', max_length=12)),
                ('steps', models.JSONField(blank=True, default=list)),
                ('removed', models.PositiveIntegerField(default=0)),
                ('distance', models.JSONField(blank=True, default=dict)),
                ('error', models.TextField(blank=True)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'db_table': 'training_cleaning',
                'ordering': ('-pk',),
            },
        ),
        migrations.CreateModel(
            name='Decision',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('verb', models.CharField(choices=[('approve', 'Approve'), ('reject', 'Reject'), ('promote', 'Promote'), ('roll back', 'Roll Back'), ('endorse', 'Endorse'), ('hold', 'Hold'), ('release', 'Release'), ('try', 'Try'), ('end trial', 'End Trial'), ('pin', 'Pin'), ('unpin', 'Unpin'), ('let go', 'Let Go'), ('import', 'Import'), ('set aside', 'Set Aside')], max_length=12)),
                ('reason', models.TextField(blank=True)),
                ('at', models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                'db_table': 'training_decision',
                'ordering': ('-at', '-pk'),
            },
        ),
        migrations.CreateModel(
            name='Line',
            fields=[
                ('name', models.SlugField(max_length=40, primary_key=True, serialize=False)),
                ('title', models.CharField(max_length=80)),
                ('recipe', models.JSONField(blank=True, default=dict)),
                ('policy', models.JSONField(blank=True, default=dict)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('retired_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'db_table': 'training_line',
                'ordering': ('created_at', 'name'),
            },
        ),
        migrations.CreateModel(
            name='Member',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('pools', models.BooleanField(default=False)),
                ('since', models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                'db_table': 'training_member',
                'ordering': ('pk',),
            },
        ),
        migrations.CreateModel(
            name='Notice',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('level', models.CharField(choices=[('info', 'Info'), ('warning', 'Warning'), ('error', 'Error')], default='info', max_length=8)),
                ('key', models.CharField(blank=True, max_length=120)),
                ('text', models.TextField()),
                ('at', models.DateTimeField(default=django.utils.timezone.now)),
                ('read_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'db_table': 'training_notice',
                'ordering': ('-at', '-pk'),
            },
        ),
        migrations.CreateModel(
            name='Taint',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('samples', models.PositiveIntegerField()),
                ('reason', models.CharField(max_length=200)),
                ('at', models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                'db_table': 'training_taint',
                'ordering': ('-at', '-pk'),
            },
        ),
        migrations.CreateModel(
            name='Trial',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('share', models.PositiveSmallIntegerField()),
                ('since', models.DateTimeField(default=django.utils.timezone.now)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('outcome', models.CharField(blank=True, choices=[('', 'Running'), ('better', 'Better'), ('no worse', 'No Worse'), ('worse', 'Worse'), ('stopped', 'Stopped')], default='', max_length=12)),
                ('evidence', models.JSONField(blank=True, default=dict)),
            ],
            options={
                'db_table': 'training_trial',
                'ordering': ('-since',),
            },
        ),
        migrations.CreateModel(
            name='Checkpoint',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('moved_at', models.DateTimeField(db_index=True, default=django.utils.timezone.now)),
                ('number', models.PositiveIntegerField(unique=True)),
                ('kind', models.CharField(choices=[('base', 'Base'), ('lora', 'Lora'), ('full', 'Full')], default='lora', max_length=8)),
                ('status', models.CharField(choices=[('candidate', 'Candidate'), ('passed', 'Passed'), ('approved', 'Approved'), ('live', 'Live'), ('retired', 'Retired'), ('rejected', 'Rejected')], db_index=True, default='candidate', max_length=12)),
                ('adapter', models.CharField(blank=True, max_length=80)),
                ('path', models.CharField(blank=True, max_length=300)),
                ('probe', models.JSONField(blank=True, default=dict)),
                ('reason', models.TextField(blank=True)),
                ('is_on_hold', models.BooleanField(db_column='is_held', default=False)),
                ('files', models.JSONField(blank=True, default=dict)),
                ('made', models.JSONField(blank=True, default=dict)),
                ('pinned', models.CharField(blank=True, max_length=200)),
                ('let_go_at', models.DateTimeField(blank=True, null=True)),
                ('came_from', models.JSONField(blank=True, default=dict)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('parent', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='children', to='checkpoints.checkpoint')),
            ],
            options={
                'db_table': 'training_checkpoint',
                'ordering': ('-number',),
            },
        ),
    ]
