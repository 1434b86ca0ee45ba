"""Every setting of the application. The environment speaks first, then DATA_DIR/env, then the default here.

What the environment has no say in stands in webapp/wiring.py.
"""

from __future__ import annotations

import os
from pathlib import Path

import dj_database_url
from django.core.exceptions import ImproperlyConfigured

from core.envfile import model_folder, read_settings
from core.network.loopback import authority
from core.visible import name_fault
from webapp.settings_readers import allowed_hosts, env, mapped_roles, origins, speaks_https, yes_or_no
from webapp.wiring import *  # noqa: F403  # Django reads one module
from webapp.wiring import BASE_DIR

DATA_DIR = Path(os.environ.get("DATA_DIR") or BASE_DIR / "var").resolve()

ENV_FILE = Path(os.environ.get("ENV_FILE") or DATA_DIR / "env")
for name, value in read_settings(ENV_FILE, DATA_DIR).items():  # so that any shell finds what the processes run with
    os.environ.setdefault(name, value)

# Where it is reached.
PORT = int(env("PORT", "8000"))
"""Where web listens."""
FOR_BUILDS = "only-for-tests-and-builds"
"""With this everybody could sign what only we may: links that sign people in, passes to the API. Nothing is served."""
SECRET_KEY = env("SECRET_KEY", FOR_BUILDS)
"""Signs sessions and links; `make up` makes one, containers have to be given one."""
DEBUG = env("DEBUG") == "1"
"""1: Django's own error pages, for developers."""
ALLOWED_HOSTS = allowed_hosts(env("ALLOWED_HOSTS"), env("HOST"))
"""Host names by which web is reached, with commas between; this machine always is."""
CSRF_TRUSTED_ORIGINS = [origin.strip() for origin in env("CSRF_TRUSTED_ORIGINS").split(",") if origin.strip()]
"""Origins whose forms and WebSockets are taken, as in https://talk.example.org, with commas between."""
HTTPS = speaks_https(yes_or_no("HTTPS"), CSRF_TRUSTED_ORIGINS)
"""Whether people reach it by https alone; by default where all of CSRF_TRUSTED_ORIGINS are https."""
ADDRESS = next(
    (origin for origin in CSRF_TRUSTED_ORIGINS if HTTPS and origin.startswith("https://") and "*" not in origin),
    f"http://{authority(env('HOST'))}:{PORT}",
)
"""Where people reach this installation, as far as it knows."""
CORS_ORIGINS = origins(env("CORS_ORIGINS"))
"""Origins whose pages may use the API from a browser, with a key; none by default."""

# What web takes of clients (webapp/serving/web_server.py, docs/how-to/go-public.md).
MAX_CONNECTIONS = int(env("MAX_CONNECTIONS", "1000"))
"""How many connections each web process takes, WebSockets included."""
REQUEST_HEAD_S = float(env("REQUEST_HEAD_S", "20"))
"""How long a client may take for a request's first line and its headers, from the connection on."""
REQUEST_BODY_S = float(env("REQUEST_BODY_S", "30"))
"""Seconds in each of which a request's body brings 32 KB more, or its end."""

# The model, and who answers for it.
MODEL = model_folder(env("MODEL", str(DATA_DIR / "models" / "smollm2-135m-instruct")), DATA_DIR)
"""A Hugging Face folder, or a hub name as in Qwen/Qwen3-4B, which is copied to models/ once."""
MODEL_NAME = env("MODEL_NAME", "talkback")
"""What clients call it; a reply's model is this name, @ and the checkpoint's number."""
if fault := name_fault(MODEL_NAME):
    raise ImproperlyConfigured(f"MODEL_NAME: {fault}")
ENGINE_URL = env("ENGINE_URL", "http://127.0.0.1:8001")
"""An engine that you run yourself; then none is started here."""
ENGINE_API_KEY = env("ENGINE_API_KEY")
"""The key that an engine takes for replies and scores."""
ENGINE_ADMIN_KEY = env("ENGINE_ADMIN_KEY")
"""The key that it takes for adapters, weights and pauses."""
ENGINE_URLS = [url.strip() for url in env("ENGINE_URLS").split(",") if url.strip()]
"""Several servers of the same model, with the same keys, that answer as one (docs/explanation/engine.md)."""
ENGINE_URL = ENGINE_URLS[0] if ENGINE_URLS else ENGINE_URL
ENGINE_FILL = int(env("ENGINE_FILL", "0"))
"""How many requests one engine has before the next one gets any; 0: they are spread. Engines that share cores with a
learner write more the fewer of them there are that write."""
ROUTER_URL = env("ROUTER_URL")
"""SGLang's router in front of several engines: it then picks who generates. All else goes to each of them."""
SPARE_ENGINE_URL = env("SPARE_ENGINE_URL")
"""A second server with the same model and keys, without which no recipe trains every weight (docs/explanation/swap.md).
It answers for the weights that the first does not serve while full weights are live there, or examined."""
ENGINE_PRIORITIES = env("ENGINE_PRIORITIES", "1") == "1"
"""Whether a request's priority is sent; 0 for an SGLang without priority scheduling."""
ENGINE_PATIENCE_S = float(env("ENGINE_PATIENCE_S", "600"))
"""How long a reply waits for an engine that does not answer; only then is it an error. Large models load slowly."""
LEARNER = env("LEARNER", "local")
"""Who takes gradients: local, or tinker, a service that answers too: text leaves here (docs/how-to/tinker.md)."""
TINKER_URL = env("TINKER_URL", "https://tinker.thinkingmachines.dev/services/tinker-prod")
"""Another server of Tinker's interface."""
TINKER_API_KEY = env("TINKER_API_KEY")
"""The key of the service (docs/how-to/tinker.md)."""
TINKER_MODEL = env("TINKER_MODEL")
"""The base by its name there, as in Qwen/Qwen3-8B; MODEL is a folder with the same model's tokenizer and template."""
if LEARNER not in ("local", "tinker"):
    raise ImproperlyConfigured(f"LEARNER is {LEARNER!r}: it is local or tinker.")
if LEARNER == "tinker":
    ENGINE_URL = TINKER_URL  # adapters that were trained there are served there only
JUDGES = env("JUDGES")
"""Who judges: the path of a TOML file, or JSON (docs/explanation/judging.md). Empty: JUDGE_URL's server, else
the policy's own base, with the judge's adapter where that fits it."""
JUDGE_URL = env("JUDGE_URL")
"""Shorter than JUDGES, for one judge: any OpenAI-compatible server (docs/explanation/judging.md)."""
JUDGE_API_KEY = env("JUDGE_API_KEY")
"""The key of that server."""
JUDGE_MODEL = env("JUDGE_MODEL")
"""What that server calls the model."""
JUDGE_VOTES = max(3, int(env("JUDGE_VOTES", "3")))
"""m: how many votes a question gets; fewer than three have no majority."""
JUDGE_MAX_NEW_TOKENS = int(env("JUDGE_MAX_NEW_TOKENS", "0"))
"""Room for a judge's reasoning; 0: by judge, 80 tokens for the small model, which then has said all, else 1024."""
JUDGE_DEADLINE_S = float(env("JUDGE_DEADLINE_S", "60"))
"""A vote that takes longer has failed; it is kept as failed and asked for once more."""
JUDGE_TEACHES = yes_or_no("JUDGE_TEACHES")
"""Whether votes alone make a sample; by default unless the bare base is among those who vote. It is right on half of
plain follow-ups only: its votes are cast, kept and shown, and people's words teach."""
CALIBRATION_VOTES = env("CALIBRATION_VOTES", "1") == "1"
"""Whether the judge also votes on what a person has decided already, afterwards, to be measured against it."""
SHADOW_SHARE = float(env("SHADOW_SHARE", "0.05"))
"""The share of main-line turns that the base answers too, unseen, while no person waits: the frozen control. 0:
none."""
SHADOW_PER_HOUR = int(env("SHADOW_PER_HOUR", "20"))
"""How many turns the base answers so in an hour, at most."""
RECIPE = env("RECIPE")
"""A JSON file with the knobs that differ from the preset (docs/reference/recipe.md)."""

# When learning may begin (training/hours.py); empty: at any time.
LEARN_HOURS = env("LEARN_HOURS")
"""Hours of the day in TIME_ZONE, as in 22:00-07:00; several with commas between."""
LEARN_IDLE_S = env("LEARN_IDLE_S")
"""Seconds without chat before learning begins."""
LEARN_BUDGET_MIN = env("LEARN_BUDGET_MIN")
"""After so many minutes of runs in a day none begins."""

# Where it learns. Which cards are the learner's is said to the processes themselves (gpu_workers/servers/leases.py).
LEARN_PROCESSES = int(env("LEARN_PROCESSES", "0"))
"""Processes that learn together, by torchrun; 0: one for each card that the learner has."""
LEARN_SHARDED = env("LEARN_SHARDED") == "1"
"""Whether an adapter's base lies in shards over the learner's cards (FSDP2), because one cannot hold it."""
LEARN_GIVES_WAY = env("LEARN_GIVES_WAY", env("LEARNER_SHARES")) == "1"
"""Whether learning waits, between two passes, while the engine answers: by itself on a card that both have."""

# Which weights stay on this disk (docs/explanation/lineage.md).
RETAIN_LAST = int(env("RETAIN_LAST", "10"))
"""How many retired checkpoints of each line keep their weights, however old."""
RETAIN_DAYS = int(env("RETAIN_DAYS", "30"))
"""How many days weights are kept after their last move, whatever else."""
DISK_RESERVE_MB = int(env("DISK_RESERVE_MB", "200"))
"""How much of DATA_DIR's disk learning leaves free, so that what people say can always be kept."""

# What may be learned from, and what is removed from it first (docs/explanation/privacy.md).
LEARN_BY_DEFAULT = env("LEARN_BY_DEFAULT", "1") == "1"
"""Whether new conversations and keys may be learned from, where their person has said nothing of it."""
REMOVE_PERSONAL_DATA = env("REMOVE_PERSONAL_DATA", "1")
"""What is removed before anything is learned: 1, the usual; 0, nothing; or kinds of judge.samples.personal, commas
between."""
PHONE_REGIONS = env("PHONE_REGIONS", "US,GB,DE,FR,IT,NL,AU,IN")
"""Whose telephone numbers are known without the code of their country."""
PERSONAL_PATTERNS = env("PERSONAL_PATTERNS")
"""A TOML file with patterns of this installation's own, a line each: kind = 'pattern', in RE2's syntax."""

# Where rows and queues are.
DATABASES = {
    # A page's request has a thread of its own, which no request would come back to: no connection is kept. Those of
    # core.threads are, and one that has gone bad meanwhile is replaced before it is used.
    "default": dj_database_url.parse(
        env("DATABASE_URL", f"sqlite:///{DATA_DIR}/talkback.sqlite3"), conn_max_age=0, conn_health_checks=True
    )
}
if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    DATABASES["default"]["OPTIONS"] = {
        "timeout": 30,
        "transaction_mode": "IMMEDIATE",  # a writer waits its turn at BEGIN, and never fails half-way
        # The log is written back in larger parts, and what is read often stays in memory: rows hold whole prompts.
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON; "
        "PRAGMA wal_autocheckpoint=8000; PRAGMA cache_size=-32000; PRAGMA mmap_size=268435456;",
    }
DATABASE_THREADS = int(env("DATABASE_THREADS", "1" if DATABASES["default"]["ENGINE"].endswith("sqlite3") else "4"))
"""Threads of a web process that do the API's database work, each with its connection: 1 with SQLite, else 4. 0: as
Django has it, a thread and a connection for each request. SQLite has one writer at a time, and a second thread would
only wait."""

REDIS_URL = env("REDIS_URL", "redis://127.0.0.1:6379/0")
"""A Redis of yours; `make up` starts one otherwise."""
CHANNEL_LAYERS = {
    "default": {"BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer", "CONFIG": {"hosts": [REDIS_URL]}}
}

# How notices are sent (webapp/notifications): Django's own e-mail, and webhooks.
EMAIL_HOST = env("EMAIL_HOST")
"""The mail server. Empty: no e-mail is sent."""
EMAIL_PORT = int(env("EMAIL_PORT", "25"))
"""Its port."""
EMAIL_HOST_USER = env("EMAIL_HOST_USER")
"""Who signs in there; empty: it asks for none."""
EMAIL_HOST_PASSWORD = env("EMAIL_HOST_PASSWORD")
"""With which password."""
EMAIL_USE_TLS = env("EMAIL_USE_TLS") == "1"
"""Whether it is spoken to by STARTTLS, as on port 587."""
EMAIL_USE_SSL = env("EMAIL_USE_SSL") == "1"
"""Whether it is spoken to by TLS from the first byte, as on port 465."""
DEFAULT_FROM_EMAIL = env("DEFAULT_FROM_EMAIL", "talkback@localhost")
"""The sender of every e-mail."""
WEBHOOKS_INSIDE = env("WEBHOOKS_INSIDE") == "1"
"""Whether webhooks may post to addresses of this machine and its network."""

# Tools of chats.
TOOLS_INSIDE = env("TOOLS_INSIDE") == "1"
"""Whether MCP servers of chats may have addresses of this machine and its network."""
TOOLS_FILE = env("TOOLS_FILE")
"""A JSON file of MCP servers that are programs: {"servers": {NAME: {"command": [WORD, ...], "env", "folder"}}}."""

# How work is queued, and when a conversation ends.
CELERY_BROKER_URL = REDIS_URL
SESSION_IDLE_S = float(env("SESSION_IDLE_S", str(6 * 3600)))
"""A conversation through the API that no request continues for so long is closed. A message opens it again."""

SESSION_COOKIE_NAME = f"talkback_{PORT}"  # two installations on one host do not sign each other out
CSRF_COOKIE_NAME = f"talkback_csrf_{PORT}"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS
SECURE_SSL_REDIRECT = HTTPS
SECURE_HSTS_SECONDS = 365 * 24 * 3600 if HTTPS else 0

# People (docs/how-to/people.md).
SIGN_UP = yes_or_no("SIGN_UP") or False
"""Whether strangers may make themselves a talker's account; by default people are invited."""

TWO_FACTOR_FROM = env("TWO_FACTOR_FROM")
"""The least role that needs a second factor, as in operator: until there is one such a person is a talker. Empty: no
role does."""
if TWO_FACTOR_FROM not in ("", "talker", "reviewer", "operator", "administrator"):
    raise ImproperlyConfigured(f"TWO_FACTOR_FROM is {TWO_FACTOR_FROM!r}: it is a role, as in operator, or nothing.")
OIDC_ISSUER = env("OIDC_ISSUER").removesuffix("/.well-known/openid-configuration").rstrip("/")
"""An OpenID Connect provider by which people sign in, as in https://id.example.org. Empty: none is asked."""
OIDC_CLIENT_ID = env("OIDC_CLIENT_ID")
"""What it calls us."""
OIDC_CLIENT_SECRET = env("OIDC_CLIENT_SECRET")
"""And what we prove it with."""
OIDC_NAME = env("OIDC_NAME", "your organisation")
"""How the sign-in page names it."""
OIDC_DOMAINS = [domain.strip().lower() for domain in env("OIDC_DOMAINS").split(",") if domain.strip()]
"""Domains, commas between, whose verified e-mail addresses get a talker's account at their first sign-in."""
OIDC_ROLE_CLAIM = env("OIDC_ROLE_CLAIM", "groups")
"""The claim of its ID token that says roles."""
OIDC_ROLES = mapped_roles(env("OIDC_ROLES"))
"""Which values of that claim give which role, at each sign-in: staff=operator,root=administrator."""
SOCIALACCOUNT_PROVIDERS = {
    "openid_connect": {
        "OAUTH_PKCE_ENABLED": True,
        "APPS": [
            {
                "provider_id": "oidc",
                "name": OIDC_NAME,
                "client_id": OIDC_CLIENT_ID,
                "secret": OIDC_CLIENT_SECRET,
                "settings": {"server_url": OIDC_ISSUER, "fetch_userinfo": False},
            }
        ],
    }
}

# Languages and times.
TIME_ZONE = env("TIME_ZONE", "UTC")
"""The time zone of learning hours, and of the times that pages show."""
STATIC_ROOT = DATA_DIR / "static"

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"()": "webapp.logs.Line", "fmt": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    "filters": {"plain": {"()": "webapp.logs.WithoutTraceback"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["plain"]}},
    "root": {"handlers": ["stderr"], "level": env("LOG_LEVEL", "INFO")},
    "loggers": {
        "httpx": {"level": "WARNING"},
        "httpcore": {"level": "WARNING"},
        "httpx2": {"level": "WARNING"},
        "mcp": {"level": "WARNING"},
    },
}
