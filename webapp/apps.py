import logging

from django.apps import AppConfig


class WebappConfig(AppConfig):
    """Connect everything that listens, once."""

    name = "webapp"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from django.urls import register_converter

        from webapp import forgetting, live, logs, pipeline, rights, rows, signin

        register_converter(rows.RowConverter, "row")
        pipeline.connect()
        live.connect()
        forgetting.connect()
        rights.connect()
        signin.connect()
        logging.getLogger("uvicorn.access").addFilter(logs.WithoutLinks())
