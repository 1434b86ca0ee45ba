"""Tables of this room as they were when rooms were made; what is older ran the migrations that this replaces."""

import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True
    replaces = [
        ("feedback", "0001_initial"),
        ("feedback", "0002_verdicts"),
        ("feedback", "0003_tests_and_receipts"),
        ("feedback", "0004_marks"),
        ("feedback", "0005_wishes"),
    ]

    dependencies = [
        ('chat', '0001_rooms'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Receipt',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(max_length=64, unique=True)),
                ('body', models.CharField(max_length=64)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('turn', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='receipts', to='chat.turn')),
            ],
        ),
        migrations.CreateModel(
            name='Feedback',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('thumb', 'Thumb'), ('rewrite', 'Rewrite'), ('guidance', 'Guidance'), ('verdict', 'Verdict'), ('marks', 'Marks')], max_length=8)),
                ('value', models.SmallIntegerField(default=0)),
                ('text', models.TextField(blank=True)),
                ('tags', models.JSONField(blank=True, default=list)),
                ('wish', models.TextField(blank=True)),
                ('exit_code', models.BigIntegerField(blank=True, null=True)),
                ('spans', models.JSONField(blank=True, default=list)),
                ('late', models.BooleanField(default=False)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('withdrawn_at', models.DateTimeField(blank=True, null=True)),
                ('by', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='feedback', to=settings.AUTH_USER_MODEL)),
                ('turn', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='feedback', to='chat.turn')),
            ],
            options={
                'ordering': ('created_at', 'pk'),
                'constraints': [models.UniqueConstraint(condition=models.Q(('withdrawn_at', None)), fields=('turn', 'by', 'kind'), name='one_standing_feedback_a_kind')],
            },
        ),
    ]
