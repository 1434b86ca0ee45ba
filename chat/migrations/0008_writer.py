from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('chat', '0007_withheld'),
    ]

    operations = [
        migrations.AddField(
            model_name='turn',
            name='writer',
            field=models.CharField(blank=True, default='', max_length=32),
            preserve_default=False,
        ),
    ]
