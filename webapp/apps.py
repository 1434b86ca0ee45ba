import logging

from django.apps import AppConfig, apps


class WebappConfig(AppConfig):
    """Connect everything that listens, once."""

    name = "webapp"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from django.db.models.signals import post_migrate
        from django.urls import register_converter

        from core import table_statistics
        from privacy import forgetting
        from webapp import live_pages, logs, pipeline
        from webapp.people import closing, rights, signin
        from webapp.serving import rows

        register_converter(rows.RowConverter, "row")
        from webapp.people import second_factor  # whose paths have one

        pipeline.connect()
        live_pages.connect()
        forgetting.connect()
        rights.connect()
        closing.connect()
        second_factor.connect()
        signin.connect()
        last = apps.get_app_config("accounts")  # one that has tables: of others no end of a migrate is told
        post_migrate.connect(table_statistics.refresh, sender=last, dispatch_uid="core.table_statistics")
        logging.getLogger("uvicorn.access").addFilter(logs.WithoutLinks())
