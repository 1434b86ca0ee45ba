"""What a start runs with: told now, told before, or chosen. Kept in DATA_DIR/env."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from core.envfile import read_settings
from installation.diagnosis import cards, engine_count, free_port, runs_elsewhere, uses_default_model
from installation.places import DATA_DIR, ENV_FILE
from installation.speech import Trouble

KEPT = (
    *("MODEL", "MODEL_NAME", "PROFILE", "DATABASE_URL", "REDIS_URL", "ENGINE_URL", "ENGINE_API_KEY"),
    *("ENGINE_ADMIN_KEY", "ENGINE_PRIORITIES", "ENGINE_PATIENCE_S", "RECIPE"),
    *("ENGINE_URLS", "ENGINE_COUNT", "ENGINE_FILL", "ENGINE_MEMORY_MB", "ROUTER_URL", "WEB_PROCESSES"),
    *("LEARNER", "TINKER_URL", "TINKER_API_KEY", "TINKER_MODEL"),
    *("JUDGES", "JUDGE_URL", "JUDGE_API_KEY", "JUDGE_MODEL"),
    *("JUDGE_VOTES", "JUDGE_MAX_NEW_TOKENS", "JUDGE_DEADLINE_S", "JUDGE_TEACHES", "CALIBRATION_VOTES"),
    *("SHADOW_SHARE", "SHADOW_PER_HOUR"),
    *("LEARN_BY_DEFAULT", "REMOVE_PERSONAL_DATA", "PHONE_REGIONS", "PERSONAL_PATTERNS"),
    *("ALLOWED_HOSTS", "CSRF_TRUSTED_ORIGINS", "CORS_ORIGINS", "HTTPS", "LOG_LEVEL", "SESSION_IDLE_S"),
    *("FORWARDED_ALLOW_IPS", "MAX_CONNECTIONS", "REQUEST_HEAD_S", "REQUEST_BODY_S", "SGLANG", "SGLANG_ARGS"),
    *("SGLANG_LORA_RANK", "SGLANG_LORA_TARGETS", "SGLANG_LORA_SLOTS", "SGLANG_LORA_HELD"),
    *("SGLANG_TOOL_PARSER", "SGLANG_REASONING_PARSER"),
    *(
        "SIGN_UP",
        "TWO_FACTOR_FROM",
        "EMAIL_HOST",
        "EMAIL_PORT",
        "EMAIL_HOST_USER",
        "EMAIL_HOST_PASSWORD",
        "EMAIL_USE_TLS",
        "DEFAULT_FROM_EMAIL",
    ),
    *(
        "OIDC_ISSUER",
        "OIDC_CLIENT_ID",
        "OIDC_CLIENT_SECRET",
        "OIDC_NAME",
        "OIDC_DOMAINS",
        "OIDC_ROLE_CLAIM",
        "OIDC_ROLES",
    ),
    *("LEARN_HOURS", "LEARN_IDLE_S", "LEARN_BUDGET_MIN", "TIME_ZONE"),
    *("EMAIL_HOST", "EMAIL_PORT", "EMAIL_HOST_USER", "EMAIL_HOST_PASSWORD", "EMAIL_USE_TLS", "EMAIL_USE_SSL"),
    *("DEFAULT_FROM_EMAIL", "WEBHOOKS_INSIDE", "TOOLS_INSIDE", "TOOLS_FILE"),
    *("LEARN_PROCESSES", "LEARN_SHARDED", "LEARN_GIVES_WAY"),
    *("RETAIN_LAST", "RETAIN_DAYS", "DISK_RESERVE_MB", "STOP_S"),
    *("NUM_GPUS", "ACTOR_GPUS", "ROLLOUT_GPUS", "PRM_GPUS"),
)
"""Settings that a start remembers from the one before, so that a database once named is not forgotten."""

DEFAULTS = {"PROFILE": "embedded"}
"""Of those, what a start goes by where nothing was said. It is never written down: only what a person said is."""


FOR_A_START = {
    "DATABASE_URL": ("SQLite in DATA_DIR", "As in postgresql://user:password@host/name; its driver is then installed."),
    "DATA_DIR": ("var", "Everything that this installation keeps."),
    "HOST": ("127.0.0.1", "The address that web listens on; beyond this machine a proxy belongs in front."),
    "PROFILE": ("embedded", "gpu: SGLang answers in place of the CPU engine."),
    "LOG_LEVEL": ("INFO", "How much processes log."),
    "STOP_S": ("30", "Seconds that a process may take to stop before it is killed, at least 6."),
    "WEB_PROCESSES": ("one for each four cores, 1 to 4", "Processes that serve pages and the API."),
    "FORWARDED_ALLOW_IPS": (
        "127.0.0.1, ::1",
        "Addresses or networks of the proxy whose X-Forwarded-Proto and X-Forwarded-For count.",
    ),
    "ENGINE_COUNT": ("1", "Engines of ours that answer as one (docs/explanation/engine.md)."),
    "ENGINE_MEMORY_MB": ("a sixteenth of the machine's", "MiB that an embedded engine holds when nothing runs."),
    "SGLANG": ("sglang", "The SGLang program, in an environment of its own."),
    "SGLANG_ARGS": ("", "Further arguments for it; they have the last word."),
    "SGLANG_LORA_RANK": ("64", "The largest rank of an adapter (docs/explanation/engine.md)."),
    "SGLANG_LORA_TARGETS": ("all linear layers", "The layers that adapters may change."),
    "SGLANG_LORA_SLOTS": ("8", "Adapters in one step, the base among them."),
    "SGLANG_LORA_HELD": ("16", "Adapters that are loaded at once."),
    "SGLANG_TOOL_PARSER": ("by family", "SGLang's parser of tool calls, or none."),
    "SGLANG_REASONING_PARSER": ("by family", "SGLang's parser of reasoning, or none."),
    "NUM_GPUS": ("all", "Cards in all (docs/how-to/use-gpus.md)."),
    "ACTOR_GPUS": ("the rest", "Cards of the learner."),
    "ROLLOUT_GPUS": ("1", "Cards of the engine."),
    "PRM_GPUS": ("0", "Cards of a judge of its own; 0: it is asked at the engine."),
    "WANDB_API_KEY": ("", "Sends a run's recipe and figures to Weights & Biases, where wandb is installed."),
    "TALKBACK_URL": ("http://localhost:8000", "Where a worker of the queue play finds Talkback."),
    "TALKBACK_KEY": ("", "The key that environments play with (docs/reference/worlds.md)."),
    "PLAY_PARALLEL": ("as the world is made for", "Attempts that a worker of the queue play has at once."),
    "TINKER_TELEMETRY": ("off", "Whether Tinker's package may report its own errors."),
}
"""What is read by a start or by one process, and not by `webapp/settings.py`: its default, and what it is."""


def written() -> dict[str, str]:
    """What the last start wrote to DATA_DIR/env, wherever DATA_DIR was then."""
    return read_settings(ENV_FILE, DATA_DIR)


def asked_for() -> dict[str, str]:
    """What this start is to use: the environment first, then what an earlier start was told, then the default."""
    before = written()
    for ours, port in (("REDIS_URL", "REDIS_PORT"), ("ENGINE_URL", "ENGINE_PORT"), ("JUDGE_URL", "JUDGE_PORT")):
        if port in before:  # an address we chose then; it is chosen anew
            before.pop(ours, None)
    if "ENGINE_PORT" in before:
        before.pop("ENGINE_URLS", None)
    if "JUDGE_PORT" in before:  # and so is the key of a judge that we ran
        before.pop("JUDGE_API_KEY", None)
    settings = {name: before[name] for name in KEPT if name in before}
    settings |= {name: os.environ[name] for name in KEPT if name in os.environ}  # an empty value forgets
    settings = {name: value.strip() for name, value in settings.items() if value.strip()}
    if uses_default_model(settings):
        settings.pop("MODEL", None)
    elif (folder := Path(settings["MODEL"]).expanduser()).is_dir():
        settings["MODEL"] = str(folder.resolve())
    settings |= {name: settings.get(name, default) for name, default in DEFAULTS.items()}
    settings["HOST"] = os.environ.get("HOST", "").strip() or "127.0.0.1"
    settings["PORT"] = os.environ.get("PORT", "").strip() or "8000"
    return settings


def complete(settings: dict[str, str]) -> dict[str, str]:
    """The settings with everything a start chooses by itself: secrets once, ports each time."""
    before, chosen = written(), dict(settings)
    chosen["DATA_DIR"] = str(DATA_DIR)
    for secret in ("SECRET_KEY", "ENGINE_API_KEY", "ENGINE_ADMIN_KEY", "REDIS_PASSWORD"):
        chosen[secret] = (
            os.environ.get(secret) or settings.get(secret) or before.get(secret) or secrets.token_urlsafe(50)
        )
    if "REDIS_URL" not in settings:
        chosen["REDIS_PORT"] = str(free_port(int(before.get("REDIS_PORT", "0"))))
        chosen["REDIS_URL"] = f"redis://:{chosen['REDIS_PASSWORD']}@127.0.0.1:{chosen['REDIS_PORT']}/0"
    if not runs_elsewhere(settings):
        ports: list[str] = []
        wished = before.get("ENGINE_PORTS", before.get("ENGINE_PORT", "0")).split(",")
        for number in range(engine_count(settings)):
            ports.append(str(free_port(int(wished[number]) if number < len(wished) else 0, *map(int, ports))))
        chosen["ENGINE_PORT"], chosen["ENGINE_PORTS"] = ports[0], ",".join(ports)
        chosen["ENGINE_URL"] = f"http://127.0.0.1:{ports[0]}"
        if len(ports) > 1:
            chosen["ENGINE_URLS"] = ",".join(f"http://127.0.0.1:{port}" for port in ports)
    given_out = cards(settings)
    if given_out.judge:
        chosen["JUDGE_PORT"] = str(free_port(int(before.get("JUDGE_PORT", "0"))))
        chosen["JUDGE_URL"] = f"http://127.0.0.1:{chosen['JUDGE_PORT']}/v1"
        chosen.setdefault("JUDGE_API_KEY", secrets.token_urlsafe(32))
    chosen["LEARNER_SHARES"] = "1" if given_out.learner_shares else "0"  # found, and not told: never remembered
    if "API_KEY" in before:
        chosen["API_KEY"] = before["API_KEY"]
    return chosen


def write_settings(settings: dict[str, str]) -> None:
    """DATA_DIR/env, readable by its owner alone, replaced in one move."""
    settings = {name: value for name, value in settings.items() if DEFAULTS.get(name) != value}
    for name, value in settings.items():
        if "\n" in value or "\r" in value:
            raise Trouble(f"{name} has more than one line: give it on one.")
    heading = "# Written by make up, with secrets: what the processes run with, and what manage.py reads.\n"
    draft = ENV_FILE.with_name("env.draft")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(heading + "".join(f"{name}={value}\n" for name, value in sorted(settings.items())))
    os.replace(draft, ENV_FILE)


def write_private(file: Path, text: str) -> Path:
    file.unlink(missing_ok=True)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        stream.write(text)
    return file


def address(settings: dict[str, str]) -> str:
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(settings["HOST"], settings["HOST"])  # noqa: S104
    return f"http://{host}:{settings['PORT']}"
