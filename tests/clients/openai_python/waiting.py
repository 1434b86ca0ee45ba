"""Waits for what a client brings about."""

from __future__ import annotations

from typing import Any

HI: Any = [{"role": "user", "content": "Say hello"}]
