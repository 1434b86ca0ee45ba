"""Worlds in which agents act: tasks that are tried several times, with an outcome that no judge has a part in."""
