import logging

from django.apps import AppConfig


class WebappConfig(AppConfig):
    """Connect everything that listens, once."""

    name = "webapp"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from django.urls import register_converter

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
        logging.getLogger("uvicorn.access").addFilter(logs.WithoutLinks())
