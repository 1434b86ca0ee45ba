from django.apps import AppConfig
from django.core.checks import register


class TrainingConfig(AppConfig):
    name = "training"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from training.checks import hours_can_be_read, model_can_be_learned

        register(hours_can_be_read)
        register(model_can_be_learned)
