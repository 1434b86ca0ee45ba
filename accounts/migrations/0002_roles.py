"""Each account with a console is an administrator; all others are talkers."""

from django.db import migrations


def give_roles(apps, schema_editor):
    User, Account = apps.get_model("auth", "User"), apps.get_model("accounts", "Account")
    User.objects.filter(is_superuser=True).update(is_staff=True)
    rows = [
        Account(user_id=pk, role="administrator" if is_staff else "talker")
        for pk, is_staff in User.objects.filter(account=None).values_list("pk", "is_staff")
    ]
    Account.objects.bulk_create(rows, batch_size=500)


class Migration(migrations.Migration):
    dependencies = [("accounts", "0001_people"), ("auth", "0012_alter_user_first_name_max_length")]
    operations = [migrations.RunPython(give_roles, migrations.RunPython.noop)]
