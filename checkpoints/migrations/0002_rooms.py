"""Tables of this room as they were when rooms were made; what is older ran the migrations that this replaces."""

import django.db.models.deletion
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
        ('training', '0001_rooms'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name='checkpoint',
            name='run',
            field=models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='checkpoint', to='training.run'),
        ),
        migrations.AddField(
            model_name='cleaning',
            name='ancestor',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='checkpoints.checkpoint'),
        ),
        migrations.AddField(
            model_name='cleaning',
            name='by',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='cleaning',
            name='replaces',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='cleanings', to='checkpoints.checkpoint'),
        ),
        migrations.AddField(
            model_name='cleaning',
            name='result',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='checkpoints.checkpoint'),
        ),
        migrations.AddField(
            model_name='decision',
            name='by',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='decision',
            name='checkpoint',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='decisions', to='checkpoints.checkpoint'),
        ),
        migrations.AddField(
            model_name='line',
            name='start',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='checkpoints.checkpoint'),
        ),
        migrations.AddField(
            model_name='decision',
            name='line',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='checkpoints.line'),
        ),
        migrations.AddField(
            model_name='cleaning',
            name='line',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='cleanings', to='checkpoints.line'),
        ),
        migrations.AddField(
            model_name='checkpoint',
            name='line',
            field=models.ForeignKey(default='shared', on_delete=django.db.models.deletion.PROTECT, related_name='checkpoints', to='checkpoints.line'),
        ),
        migrations.AddField(
            model_name='member',
            name='line',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='members', to='checkpoints.line'),
        ),
        migrations.AddField(
            model_name='member',
            name='user',
            field=models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='membership', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='notice',
            name='checkpoint',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='checkpoints.checkpoint'),
        ),
        migrations.AddField(
            model_name='notice',
            name='read_by',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='taint',
            name='checkpoint',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='taints', to='checkpoints.checkpoint'),
        ),
        migrations.AddField(
            model_name='taint',
            name='cleaned_by',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='taints', to='checkpoints.cleaning'),
        ),
        migrations.AddField(
            model_name='trial',
            name='against',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='checkpoints.checkpoint'),
        ),
        migrations.AddField(
            model_name='trial',
            name='by',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='trial',
            name='checkpoint',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='trials', to='checkpoints.checkpoint'),
        ),
        migrations.AddField(
            model_name='trial',
            name='line',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='trials', to='checkpoints.line'),
        ),
        migrations.AddConstraint(
            model_name='line',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('name', 'shared'), ('retired_at', None), ('start', None)), models.Q(models.Q(('name', 'shared'), _negated=True), ('start__isnull', False)), _connector='OR'), name='private_lines_start_somewhere'),
        ),
        migrations.AddConstraint(
            model_name='cleaning',
            constraint=models.UniqueConstraint(condition=models.Q(('status__in', ('queued', 'running'))), fields=('line',), name='one_cleaning_a_line'),
        ),
        migrations.AddConstraint(
            model_name='checkpoint',
            constraint=models.UniqueConstraint(condition=models.Q(('status', 'live')), fields=('line',), name='one_live_a_line'),
        ),
        migrations.AddConstraint(
            model_name='member',
            constraint=models.CheckConstraint(condition=models.Q(('line', 'shared'), _negated=True), name='nobody_is_a_member_of_all'),
        ),
        migrations.AddConstraint(
            model_name='notice',
            constraint=models.UniqueConstraint(condition=models.Q(('read_at', None), models.Q(('key', ''), _negated=True)), fields=('key',), name='one_notice_a_key'),
        ),
        migrations.AddConstraint(
            model_name='taint',
            constraint=models.UniqueConstraint(fields=('checkpoint',), name='one_taint_a_checkpoint'),
        ),
        migrations.AddConstraint(
            model_name='trial',
            constraint=models.UniqueConstraint(condition=models.Q(('ended_at', None)), fields=('line',), name='one_trial_a_line'),
        ),
        migrations.AddConstraint(
            model_name='trial',
            constraint=models.CheckConstraint(condition=models.Q(('share__lte', 100)), name='shares_are_per_cent'),
        ),
    ]
