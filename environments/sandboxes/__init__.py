"""Sandboxes: run strangers' code with one writable folder, no network and bounds, and score it in another one."""
