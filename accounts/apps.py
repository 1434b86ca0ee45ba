from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "accounts"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from accounts import deeds, devices, roles

        roles.connect()
        devices.connect()
        deeds.connect()
