"""Talkback on this machine: bring what it needs, start it, stop it, say what is wrong. Behind every `make` target.

    python3 -m installation up | down | doctor | install [EXTRA ...] | model | packages | clean

Standard library only, because it runs before anything is installed. Settings come from the environment
(`make up PORT=9000 DATA_DIR=/x` puts them there); what a start was told is kept in DATA_DIR/env.
"""
