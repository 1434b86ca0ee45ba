from django.apps import AppConfig
from django.db.models.signals import post_delete


class ChatConfig(AppConfig):
    name = "chat"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from chat.models import Session, Turn
        from chat.pictures import keeping

        post_delete.connect(keeping.forget_session, sender=Session, dispatch_uid="pictures")
        post_delete.connect(keeping.forget_turn, sender=Turn, dispatch_uid="pictures")
