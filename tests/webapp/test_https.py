"""By https alone: one setting, and every cookie, redirect and header follows."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
import yaml
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from webapp.asgi import application
from webapp.settings_readers import speaks_https

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[2]

ASKED = """
import json, django; django.setup()
from django.conf import settings
from django.test import Client
secure, plain = Client().get("/login/", secure=True), Client().get("/login/?next=/console/")
print(json.dumps({
    "cookie": bool(secure.cookies[settings.CSRF_COOKIE_NAME]["secure"]), "session": settings.SESSION_COOKIE_SECURE,
    "hsts": secure.headers.get("Strict-Transport-Security"),
    "plain": [plain.status_code, plain.headers.get("Location")],
    "alive": Client().get("/healthz").status_code, "address": settings.ADDRESS,
}))
"""


def started(tmp_path: Path, *command: str, **environment: str) -> str:
    """What a process prints that runs as in earnest, with these settings alone."""
    ours = {"ENV_FILE": os.devnull, "DATA_DIR": str(tmp_path), "SECRET_KEY": "".join(map(chr, range(40, 120)))}
    ours |= {"DJANGO_SETTINGS_MODULE": "webapp.settings", "DATABASE_URL": "", "PORT": "", "HOST": "", "HTTPS": ""}
    ours |= {"CSRF_TRUSTED_ORIGINS": "", "ALLOWED_HOSTS": "testserver", **environment}
    done = subprocess.run(
        [sys.executable, *command], env=os.environ | ours, cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "said", [{"HTTPS": "1"}, {"CSRF_TRUSTED_ORIGINS": "https://talk.example.org, https://talk.example.net"}]
)
def test_one_setting_makes_cookies_secure_and_redirects_and_tells_browsers_to_stay(tmp_path, said):
    told = json.loads(started(tmp_path, "-c", ASKED, **said))
    assert (told["cookie"], told["session"]) == (True, True)
    assert told["hsts"] == "max-age=31536000"  # a year: 365 * 24 * 3600
    assert told["plain"] == [301, "https://testserver/login/?next=/console/"]
    assert told["alive"] == 200  # asked on this machine, past the proxy
    assert told["address"] == ("http://localhost:8000" if "HTTPS" in said else "https://talk.example.org")


@pytest.mark.parametrize(
    "said",
    [{"HOST": "localhost"}, {"HTTPS": "0", "CSRF_TRUSTED_ORIGINS": "https://talk.example.org", "HOST": "0.0.0.0"}],
)
def test_without_it_a_plain_address_works(tmp_path, said):
    told = json.loads(started(tmp_path, "-c", ASKED, **said))
    assert (told["cookie"], told["session"], told["hsts"], told["plain"]) == (False, False, None, [200, None])
    assert told["address"] == ("http://localhost:8000" if said["HOST"] == "localhost" else "http://127.0.0.1:8000")


def test_djangos_own_check_of_a_deployment_finds_nothing(tmp_path):
    said = started(tmp_path, "manage.py", "check", "--deploy", "--fail-level", "WARNING", HTTPS="1")
    assert "System check identified no issues" in said


@pytest.mark.parametrize(
    ("said", "trusted", "means"),
    [
        (None, [], False),
        (None, ["https://a.example"], True),
        (None, ["https://a.example", "http://b.example"], False),  # its cookies must reach both
        (True, ["http://b.example"], True),
        (False, ["https://a.example"], False),
    ],
)
def test_https_is_what_was_said_or_what_all_trusted_origins_are(said, trusted, means):
    assert speaks_https(said, trusted) is means


@pytest.mark.parametrize(("scheme", "told"), [("https", "max-age=60"), ("http", None)])
async def test_the_api_tells_browsers_too(settings, scheme, told):
    settings.SECURE_HSTS_SECONDS = 60
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(application), base_url=f"{scheme}://localhost"
    ) as client:
        assert (await client.get("/v1/nothing")).headers.get("Strict-Transport-Security") == told


async def test_behind_the_proxy_of_compose_an_address_is_what_the_proxy_wrote():
    compose = yaml.safe_load((ROOT / "docker" / "compose.yml").read_text())
    usual = re.fullmatch(r"\$\{\w+:-(.+)\}", compose["services"]["web"]["environment"]["FORWARDED_ALLOW_IPS"])
    assert usual
    seen = []

    async def web(scope, receive, send):
        seen.append((scope["client"][0], scope["scheme"]))

    proxied = {"type": "http", "scheme": "http", "client": ("172.18.0.1", 1)}  # what Docker has a port come from
    made_up = [(b"x-forwarded-for", b"198.51.100.9, 203.0.113.7"), (b"x-forwarded-proto", b"https")]
    await ProxyHeadersMiddleware(web, trusted_hosts=usual[1])(proxied | {"headers": made_up}, None, None)
    assert seen == [("203.0.113.7", "https")]  # the client wrote the first, the proxy the last
