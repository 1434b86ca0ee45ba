from django.apps import AppConfig


class EpisodesConfig(AppConfig):
    name = "episodes"
    default_auto_field = "django.db.models.BigAutoField"
