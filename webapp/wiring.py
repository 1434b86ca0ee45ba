"""What the application is made of, whatever the environment says: Django's parts, queues, sign-in, languages.

`webapp.settings` takes all of it in, since Django reads one module.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import django

BASE_DIR = Path(__file__).resolve().parent.parent

# Of what the application is made.
INSTALLED_APPS = [
    "webapp",
    "webapp.notifications",
    "evaluation",
    "gate",
    "privacy",
    "judge",
    "training",
    "episodes",
    "feedback",
    "chat",
    "checkpoints",
    "accounts",
    "channels",
    "django_htmx",
    "ninja",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "django.contrib.admin.apps.SimpleAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "webapp.serving.headers.ContentSecurityPolicy",
    "webapp.serving.static_files.StaticFiles",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "webapp.serving.languages.ReadersLanguage",
    "webapp.serving.methods.WrongMethod",
]
ROOT_URLCONF = "webapp.urls"
ASGI_APPLICATION = "webapp.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates", Path(django.__file__).parent / "contrib/admin/templates"],
        "APP_DIRS": False,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
            "libraries": {"talkback": "webapp.templatetags.talkback"},
            "builtins": ["webapp.templatetags.rights"],
        },
    }
]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# How work is queued, and how long things wait.
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TASK_DEFAULT_PRIORITY = 6
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": 6 * 3600,  # longer than the longest run
    "priority_steps": [0, 6],
    "queue_order_strategy": "priority",
}
CELERY_TASK_DEFAULT_QUEUE = "judge"
CELERY_TASK_ROUTES = {
    "webapp.tasks.sweep": {"queue": "judge", "priority": 0},  # 0 goes first: neither waits behind a row of verdicts
    "chat.tools.tasks.take_up": {"queue": "judge", "priority": 0},  # a person waits for it
    "training.tasks.promote": {"queue": "judge", "priority": 0},  # and a swap needs no learner
    "training.tasks.*": {"queue": "learn"},
    "judge.tasks.*": {"queue": "judge"},
    "gate.tasks.*": {"queue": "judge"},
    "evaluation.tasks.write_weights": {"queue": "learn"},  # it needs torch
    "evaluation.tasks.*": {"queue": "judge"},
    "privacy.tasks.*": {"queue": "judge"},
    "feedback.tasks.*": {"queue": "judge"},
    "worlds.play": {"queue": "play"},  # hosts of their own, which no start brings
}
SWEEP_S = 20
"""How often the sweep looks for rows that are due; the longest an emptied Redis can hold anything up."""
SQLITE_WEB_PATIENCE_S = 10
"""How long a request waits for its turn to write SQLite before it is told to come again."""
EMAIL_TIMEOUT = 10

# How people sign in.
AUTHENTICATION_BACKENDS = [
    "accounts.backends.AccountBackend",
    "django.contrib.auth.backends.ModelBackend",  # for who signed in before the first one was there
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
PASSWORD_HASHERS = [
    # Where argon2-cffi is at hand; who signs in with a password that was hashed before is hashed anew.
    *(["django.contrib.auth.hashers.Argon2PasswordHasher"] if importlib.util.find_spec("argon2") else []),
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]
CSRF_FAILURE_VIEW = "webapp.errors.forbidden"
LOGIN_URL = "login"
PASSWORD_RESET_TIMEOUT = 24 * 3600  # how long a sign-in link is good for, in seconds
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "login"
SOCIALACCOUNT_ADAPTER = "webapp.people.allauth_adapters.OpenIdAdapter"
SOCIALACCOUNT_LOGIN_ON_GET = True  # a form could not leave: form-action is 'self'
SOCIALACCOUNT_EMAIL_AUTHENTICATION = False  # an address is no proof of an account that was made here
ACCOUNT_ADAPTER = "webapp.people.allauth_adapters.AccountAdapter"
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_UNIQUE_EMAIL = False
ACCOUNT_REAUTHENTICATION_METHODS = ["password", "mfa"]
MFA_ADAPTER = "webapp.people.allauth_adapters.SecondFactorAdapter"
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_PASSKEY_LOGIN_ENABLED = True
MFA_TOTP_TOLERANCE = 1  # clocks of telephones
MFA_ALLOW_UNVERIFIED_EMAIL = True
CACHES = {  # what allauth counts: wrong codes, codes that were used. It holds across processes and restarts.
    "default": {"BACKEND": "django.core.cache.backends.db.DatabaseCache", "LOCATION": "accounts_cache"}
}

# What browsers are told.
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$"]  # asked on this machine, past the proxy
# Names below yours may be served by others, and browsers that know a name beforehand never forget it.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
DATA_UPLOAD_MAX_MEMORY_SIZE = 8 * 2**20

# Languages, and the files of pages.
LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("de", "Deutsch"), ("es", "Español"), ("zh-hans", "简体中文")]
"""Each by its own name. What is English in all of them: /v1 and commands, which programs read, and stored notes."""
LOCALE_PATHS = [BASE_DIR / "locale"]
FORMAT_MODULE_PATH = "webapp.formats"
USE_TZ = True
STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
WHITENOISE_USE_FINDERS = True
