from django.db import migrations, models


class Migration(migrations.Migration):
    """Indexes out of which is read, without reading turns: whether one that another row names may teach; and when, and
    how, those of conversations ended."""

    dependencies = [("chat", "0010_leases")]

    operations = [
        migrations.RemoveIndex(model_name="turn", name="turns_of_sessions"),
        migrations.AddIndex(
            model_name="turn",
            index=models.Index(
                fields=["session", "line", "learns", "id", "finish_reason", "created_at"], name="turns_of_sessions"
            ),
        ),
        migrations.AddIndex(
            model_name="turn",
            index=models.Index(fields=["id", "status", "learns", "line", "session"], name="turns_by_key"),
        ),
    ]
