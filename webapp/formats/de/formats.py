"""Figures as in charts, files and the API, whatever the language: 0.43."""

DECIMAL_SEPARATOR = "."
THOUSAND_SEPARATOR = ","
