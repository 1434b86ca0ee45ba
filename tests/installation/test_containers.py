"""What docker/.env says reaches the processes of docker/compose.yml: a setting that is not handed on does nothing."""

from __future__ import annotations

import json
import re

import yaml

from core.told import KEPT
from installation.places import ROOT

OTHERWISE = {
    "PROFILE", "SGLANG", "SGLANG_ARGS", "SGLANG_LORA_RANK", "SGLANG_LORA_TARGETS", "SGLANG_LORA_SLOTS",
    "SGLANG_LORA_HELD", "SGLANG_TOOL_PARSER", "SGLANG_REASONING_PARSER",  # the command of `engine` says it
    "ENGINE_URLS", "ENGINE_COUNT", "ENGINE_MEMORY_MB", "ROUTER_URL",  # there is one engine, and it is SGLang
    "NUM_GPUS", "ACTOR_GPUS", "ROLLOUT_GPUS", "PRM_GPUS",  # cards are given under `deploy`
    "LEARNER", "TINKER_URL", "TINKER_API_KEY", "TINKER_MODEL",  # Tinker takes the place of engine and learner
    "WEB_PROCESSES",  # web is one process in its container
}  # fmt: skip


def test_every_setting_that_a_start_remembers_is_handed_to_the_containers():
    services = yaml.safe_load((ROOT / "docker" / "compose.yml").read_text())["services"]
    told = set(services["web"]["environment"])
    assert set(KEPT) - told == OTHERWISE
    assert len(KEPT) == len(set(KEPT))
    for name in ("judge", "learn", "beat"):  # web has the proxy's addresses besides
        assert told - {"FORWARDED_ALLOW_IPS"} <= set(services[name]["environment"]), name


def test_the_image_says_where_its_web_listens():
    """A process that knows of no HOST takes localhost for web's address, and all that is behind it for web's own."""
    image = (ROOT / "docker" / "Dockerfile").read_text()
    command = json.loads(re.findall(r"^CMD (.*)$", image, re.MULTILINE)[0])
    assert re.findall(r"^ENV .*\bHOST=(\S+)", image, re.MULTILINE) == [command[command.index("--host") + 1]]
