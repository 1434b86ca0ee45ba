from django.apps import AppConfig


class GateConfig(AppConfig):
    name = "gate"
    default_auto_field = "django.db.models.BigAutoField"
