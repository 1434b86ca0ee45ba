"""Tables of this room as they were when rooms were made; what is older ran the migrations that this replaces."""

import chat.api_keys
import chat.models
import django.utils.timezone
import uuid
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True
    replaces = [
        ("chat", "0001_initial"),
        ("chat", "0002_chains"),
        ("chat", "0003_doors"),
        ("chat", "0004_keys"),
        ("chat", "0005_sorting"),
        ("chat", "0006_consent"),
        ("chat", "0007_withheld"),
        ("chat", "0008_writer"),
    ]

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='ApiKey',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=80)),
                ('prefix', models.CharField(max_length=12)),
                ('digest', models.CharField(max_length=64, unique=True)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('used_at', models.DateTimeField(blank=True, null=True)),
                ('expires_at', models.DateTimeField(blank=True, null=True)),
                ('revoked_at', models.DateTimeField(blank=True, null=True)),
                ('scopes', models.JSONField(default=chat.api_keys.usual_scopes)),
                ('learns', models.BooleanField(default=True)),
                ('requests_per_minute', models.PositiveIntegerField(blank=True, null=True)),
                ('tokens_per_day', models.PositiveBigIntegerField(blank=True, null=True)),
                ('refused_at', models.DateTimeField(blank=True, null=True)),
                ('refusal_code', models.CharField(blank=True, max_length=40)),
                ('refusal', models.CharField(blank=True, max_length=500)),
            ],
        ),
        migrations.CreateModel(
            name='ClientRules',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=40, unique=True)),
                ('source', models.TextField()),
                ('changed_at', models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                'verbose_name_plural': 'client rules',
                'ordering': ('name',),
            },
        ),
        migrations.CreateModel(
            name='Consent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('learns', models.BooleanField(default=True)),
                ('changed_at', models.DateTimeField(default=django.utils.timezone.now)),
            ],
        ),
        migrations.CreateModel(
            name='Session',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('external_id', models.CharField(blank=True, max_length=200)),
                ('client', models.CharField(blank=True, max_length=40)),
                ('named_by', models.CharField(blank=True, max_length=40)),
                ('title', models.CharField(blank=True, max_length=120)),
                ('learns', models.BooleanField(default=True)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('active_at', models.DateTimeField(db_index=True, default=django.utils.timezone.now)),
                ('closed_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'ordering': ('-active_at',),
            },
        ),
        migrations.CreateModel(
            name='Spending',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('day', models.DateField()),
                ('tokens', models.PositiveBigIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name='Turn',
            fields=[
                ('moved_at', models.DateTimeField(db_index=True, default=django.utils.timezone.now)),
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('completion_id', models.CharField(default=chat.models.completion_id, editable=False, max_length=64, unique=True)),
                ('position', models.PositiveIntegerField()),
                ('status', models.CharField(choices=[('answering', 'Answering'), ('served', 'Served'), ('observed', 'Observed'), ('judged', 'Judged'), ('closed', 'Closed')], db_index=True, default='answering', max_length=12)),
                ('line', models.CharField(choices=[('main', 'Main'), ('side', 'Side')], default='main', max_length=4)),
                ('kind', models.CharField(blank=True, max_length=40)),
                ('rule', models.CharField(blank=True, max_length=80)),
                ('protocol', models.CharField(blank=True, max_length=12)),
                ('request_key', models.CharField(blank=True, db_index=True, max_length=64)),
                ('learns', models.BooleanField(default=True)),
                ('withheld', models.BooleanField(default=False)),
                ('messages', models.JSONField()),
                ('tools', models.JSONField(blank=True, default=list)),
                ('chain', models.CharField(blank=True, db_index=True, max_length=64)),
                ('request_chain', models.CharField(blank=True, max_length=64)),
                ('asked', models.JSONField(blank=True, default=dict)),
                ('text', models.TextField(blank=True)),
                ('message', models.JSONField(blank=True, default=dict)),
                ('marks', models.JSONField(blank=True, default=list)),
                ('prompt_ids', models.JSONField(blank=True, default=list)),
                ('response_ids', models.JSONField(blank=True, default=list)),
                ('logprobs', models.JSONField(blank=True, default=list)),
                ('sampling', models.JSONField(blank=True, default=dict)),
                ('finish_reason', models.CharField(blank=True, max_length=12)),
                ('error', models.TextField(blank=True)),
                ('cached_tokens', models.PositiveIntegerField(default=0)),
                ('weight_version', models.CharField(blank=True, max_length=80)),
                ('first_token_s', models.FloatField(blank=True, null=True)),
                ('next_state', models.JSONField(blank=True, default=list)),
                ('writer', models.CharField(blank=True, max_length=32)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('served_at', models.DateTimeField(blank=True, null=True)),
                ('observed_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'ordering': ('position', 'created_at'),
            },
        ),
    ]
