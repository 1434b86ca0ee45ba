"""How dates and figures are written in each language: dates as Django has it, figures as in charts, files and /v1."""
