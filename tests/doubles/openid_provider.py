"""A small OpenID Connect provider: discovery, an authorisation endpoint, tokens with PKCE, and keys, over real HTTP."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

CLIENT, SECRET = "talkback", "a secret of the client"


class Provider:
    """One provider. `claims` are of the person who signs in next; what its tokens say can be bent for a test."""

    def __init__(self) -> None:
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.signs_with = self.key
        self.claims: dict[str, Any] = {}
        self.bent: dict[str, Any] = {}
        self.codes: dict[str, dict[str, str]] = {}
        self.asked: list[str] = []
        self.issuer = ""

    def sign_in(self, address: str) -> str:
        """What a browser does that is sent to `address`: the person says yes, and is sent back to the address that this
        returns."""
        said = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        assert address.startswith(f"{self.issuer}/authorize?")
        assert (said["client_id"], said["response_type"], said["code_challenge_method"]) == (CLIENT, "code", "S256")
        assert "openid" in said["scope"].split()
        code = secrets.token_urlsafe(8)
        self.codes[code] = said
        return f"{said['redirect_uri']}?{urlencode({'code': code, 'state': said['state']})}"

    def answer(self, path: str, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        self.asked.append(path)
        if path == "/.well-known/openid-configuration":
            return 200, {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/keys",
                "token_endpoint_auth_methods_supported": ["client_secret_post"],
            }
        if path == "/keys":
            public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key()))
            return 200, {"keys": [public | {"kid": "one", "alg": "RS256", "use": "sig"}]}
        if path == "/token":
            return self.token(form)
        return 404, {}

    def token(self, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        begun = self.codes.pop(form.get("code", ""), None)  # a code works once
        proof = base64.urlsafe_b64encode(hashlib.sha256(form.get("code_verifier", "").encode()).digest())
        if (
            begun is None
            or (form.get("client_id"), form.get("client_secret")) != (CLIENT, SECRET)
            or form.get("redirect_uri") != begun["redirect_uri"]
            or proof.decode().rstrip("=") != begun["code_challenge"]
        ):
            return 400, {"error": "invalid_grant"}
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT, "iat": now, "exp": now + 300, **self.claims, **self.bent}
        token = jwt.encode(claims, self.signs_with, algorithm="RS256", headers={"kid": "one"})
        return 200, {"access_token": secrets.token_urlsafe(8), "token_type": "Bearer", "id_token": token}


@contextmanager
def provider() -> Iterator[Provider]:
    made = Provider()

    class Handler(BaseHTTPRequestHandler):
        def reply(self, form: dict[str, str]) -> None:
            status, body = made.answer(urlsplit(self.path).path, form)
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_GET(self) -> None:
            self.reply({})

        def do_POST(self) -> None:
            read = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self.reply({name: values[0] for name, values in parse_qs(read).items()})

        def log_message(self, *about: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.issuer = f"http://127.0.0.1:{server.server_address[1]}"
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
