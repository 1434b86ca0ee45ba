from django.apps import AppConfig
from django.core.checks import register


class JudgeConfig(AppConfig):
    name = "judge"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from judge.checks import judges_can_be_made, removal_can_be_done

        register(judges_can_be_made)
        register(removal_can_be_done)
