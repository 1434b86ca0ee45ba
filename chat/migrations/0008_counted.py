from django.db import migrations, models


class Migration(migrations.Migration):
    """Indexes out of which pages count turns, without reading them."""

    dependencies = [("chat", "0007_tools")]

    operations = [
        migrations.AddIndex(
            model_name="turn", index=models.Index(fields=["status", "moved_at"], name="turns_by_state")
        ),
        migrations.AddIndex(
            model_name="turn",
            index=models.Index(fields=["session", "line", "learns", "id"], name="turns_of_sessions"),
        ),
        migrations.AddIndex(
            model_name="turn",
            index=models.Index(condition=models.Q(("learns", False)), fields=["session"], name="turns_off_record"),
        ),
    ]
