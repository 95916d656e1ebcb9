"""A small OpenID provider on loopback: it checks what a client sends, and lies where it is told."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT_ID, CLIENT_SECRET = "orchgit", "a secret of the client"


class OidcProvider:
    """`claims` are those of the person who logs in; `lies` are claims of the id token that replace
    the true ones. `refusals` collects why the token endpoint refused."""

    def __init__(self) -> None:
        self.key = RSAKey.generate_key(2048, {"kid": "one"})
        self.signing_key = self.key
        self.claims: dict[str, Any] = {"sub": "ada", "email": "ada@example.com"}
        self.userinfo: dict[str, Any] = {"sub": "ada"}
        self.lies: dict[str, Any] = {}
        self.refusals: list[str] = []
        self.assertions: list[str] = []
        self.issuer = ""
        self.answers: dict[str, bytes] = {}
        """Paths whose answers are replaced."""
        self._codes: dict[str, dict[str, str]] = {}

    def authorize(self, url: str) -> tuple[str, str]:
        """What the browser of a person does who agrees. Returns (state, code)."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        assert url.startswith(f"{self.issuer}/authorize?")
        assert (query["response_type"], query["client_id"]) == ("code", CLIENT_ID)
        assert "openid" in query["scope"].split()
        code = secrets.token_urlsafe()
        self._codes[code] = query
        return query["state"], code

    def answer(self, path: str, headers: dict[str, str], form: dict[str, str]) -> Any:
        """Returns the JSON of an answer; None: refused."""
        if path == "/.well-known/openid-configuration":
            return {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "userinfo_endpoint": f"{self.issuer}/userinfo",
                "jwks_uri": f"{self.issuer}/keys",
            }
        if path == "/keys":
            return {"keys": [self.key.as_dict(private=False)]}
        if path == "/userinfo":
            return self.userinfo if headers.get("authorization") == "Bearer access" else None
        if path == "/token" and (problem := self._problem(headers, form)):
            self.refusals.append(problem)
            return None
        return self._token(self._codes.pop(form["code"])) if path == "/token" else None

    def _problem(self, headers: dict[str, str], form: dict[str, str]) -> str:
        asked = self._codes.get(form.get("code", ""))
        if asked is None:
            return "the code is unknown, or was used"
        if form["redirect_uri"] != asked["redirect_uri"]:
            return "the redirect URI is another one"
        if assertion := form.get("client_assertion"):
            self.assertions.append(assertion)
        else:
            basic = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
            if headers.get("authorization") != f"Basic {basic}":
                return "the client secret is wrong"
        if challenge := asked.get("code_challenge"):
            digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
            if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != challenge:
                return "the code verifier is wrong"
        return ""

    def _token(self, asked: dict[str, str]) -> dict[str, Any]:
        now_s = int(time.time())
        claims = {
            **self.claims,
            "iss": self.issuer,
            "aud": CLIENT_ID,
            "nonce": asked["nonce"],
            "iat": now_s,
            "exp": now_s + 300,
            **self.lies,
        }
        token = jwt.encode({"alg": "RS256", "kid": "one"}, claims, self.signing_key)
        return {"access_token": "access", "token_type": "Bearer", "id_token": token}


@contextmanager
def oidc_provider() -> Iterator[OidcProvider]:
    provider = OidcProvider()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

        def _answer(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            form = {
                name: values[0] for name, values in parse_qs(self.rfile.read(size).decode()).items()
            }
            headers = {name.lower(): value for name, value in self.headers.items()}
            value = provider.answer(self.path, headers, form)
            data = provider.answers.get(self.path, json.dumps(value).encode())
            self.send_response(200 if value is not None else 400)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = _answer

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider.issuer = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
