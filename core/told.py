"""Name the settings that a person gives to a start: which it remembers, and which no Django setting describes."""

from __future__ import annotations

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
    *("SIGN_UP", "TWO_FACTOR_FROM", "OIDC_ISSUER", "OIDC_CLIENT_ID", "OIDC_CLIENT_SECRET"),
    *("OIDC_NAME", "OIDC_DOMAINS", "OIDC_ROLE_CLAIM", "OIDC_ROLES"),
    *("LEARN_HOURS", "LEARN_IDLE_S", "LEARN_BUDGET_MIN", "TIME_ZONE"),
    *("EMAIL_HOST", "EMAIL_PORT", "EMAIL_HOST_USER", "EMAIL_HOST_PASSWORD", "EMAIL_USE_TLS", "EMAIL_USE_SSL"),
    *("DEFAULT_FROM_EMAIL", "WEBHOOKS_INSIDE", "TOOLS_INSIDE", "TOOLS_FILE"),
    *("LEARN_PROCESSES", "LEARN_SHARDED", "LEARN_GIVES_WAY"),
    *("RETAIN_LAST", "RETAIN_DAYS", "DISK_RESERVE_MB", "STOP_S"),
    *("NUM_GPUS", "ACTOR_GPUS", "ROLLOUT_GPUS", "PRM_GPUS"),
)
"""Settings that a start remembers from the one before, so that a database once named is not forgotten."""

FOR_A_START = {
    "DATABASE_URL": ("SQLite in DATA_DIR", "As in postgresql://user:password@host/name; its driver is then installed."),
    "DATA_DIR": ("var", "Everything that this installation keeps."),
    "HOST": ("localhost", "The address that web listens on; beyond this machine a proxy belongs in front."),
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
