from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('feedback', '0004_marks'),
    ]

    operations = [
        migrations.AddField(
            model_name='feedback',
            name='wish',
            field=models.TextField(blank=True, default=''),
            preserve_default=False,
        ),
    ]
