"""The settings of tests: nothing here touches a running installation, its folder or its Redis."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

os.environ["ENV_FILE"] = os.devnull

from webapp.settings import *  # noqa: F403

DATA_DIR = Path(tempfile.mkdtemp(prefix="talkback-tests-"))
atexit.register(shutil.rmtree, DATA_DIR, ignore_errors=True)
STATIC_ROOT = DATA_DIR / "static"
STATIC_ROOT.mkdir()
DATABASES["default"]["CONN_MAX_AGE"] = 0  # noqa: F405  a test that ends leaves no connection open
DATABASE_THREADS = 0  # nor one in a thread of the process
SECRET_KEY = "only-for-tests"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
REDIS_URL = "redis://127.0.0.1:1/0"  # none answers: a test that wants one brings its own
CELERY_BROKER_URL = "memory://"
DISK_RESERVE_MB = 0  # what is free on this machine is no matter of a test
SHADOW_SHARE = 0.0  # drawn by a turn's number, which is another one each time
MIDDLEWARE = ["tests.kept.StaticFiles" if "static_files" in name else name for name in MIDDLEWARE]  # noqa: F405  the real ones
CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}

# What every test that commits begins with is written anew before it: not the permissions, of which nothing here asks.
TEST_NON_SERIALIZED_APPS = ["django.contrib.auth", "django.contrib.contenttypes"]

if DATABASES["default"]["ENGINE"].endswith("sqlite3"):  # noqa: F405
    # A file, as in earnest: threads and the event loop then wait for each other as they do in the application.
    DATABASES["default"]["TEST"] = {"NAME": DATA_DIR / "test.sqlite3"}  # noqa: F405
