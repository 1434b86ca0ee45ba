"""Addresses: whose a request is, which are of this machine, and which lead out of it."""
