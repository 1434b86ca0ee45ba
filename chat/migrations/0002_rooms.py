"""Tables of this room as they were when rooms were made; what is older ran the migrations that this replaces."""

import django.db.models.deletion
from django.conf import settings
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
        ('chat', '0001_rooms'),
        ('checkpoints', '0001_rooms'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name='apikey',
            name='checkpoint',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='pinned_keys', to='checkpoints.checkpoint'),
        ),
        migrations.AddField(
            model_name='apikey',
            name='user',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='api_keys', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='clientrules',
            name='changed_by',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='consent',
            name='user',
            field=models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='consent', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='session',
            name='key',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='sessions', to='chat.apikey'),
        ),
        migrations.AddField(
            model_name='session',
            name='user',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='sessions', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='spending',
            name='key',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='spendings', to='chat.apikey'),
        ),
        migrations.AddField(
            model_name='turn',
            name='checkpoint',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='turns', to='checkpoints.checkpoint'),
        ),
        migrations.AddField(
            model_name='turn',
            name='follows',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='followers', to='chat.turn'),
        ),
        migrations.AddField(
            model_name='turn',
            name='session',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='turns', to='chat.session'),
        ),
        migrations.AddField(
            model_name='turn',
            name='sorted_by',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='sorted_turns', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddIndex(
            model_name='session',
            index=models.Index(condition=models.Q(('closed_at', None)), fields=['active_at'], name='open_sessions'),
        ),
        migrations.AddConstraint(
            model_name='session',
            constraint=models.UniqueConstraint(condition=models.Q(('external_id', ''), _negated=True), fields=('key', 'external_id'), name='one_session_a_name'),
        ),
        migrations.AddConstraint(
            model_name='spending',
            constraint=models.UniqueConstraint(fields=('key', 'day'), name='one_spending_a_day'),
        ),
        migrations.AddIndex(
            model_name='turn',
            index=models.Index(fields=['created_at'], name='turns_by_time'),
        ),
        migrations.AddConstraint(
            model_name='turn',
            constraint=models.UniqueConstraint(fields=('session', 'position'), name='one_turn_a_position'),
        ),
    ]
