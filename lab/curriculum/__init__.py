"""The school of the embedded model's judge: what it is taught, how, and how well it does on what it never saw."""
