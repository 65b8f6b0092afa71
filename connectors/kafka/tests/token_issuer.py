"""An issuer of OAuth tokens: client credentials for signed JWTs, and the keys that verify them."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from joserfc import jwt
from joserfc.jwk import RSAKey

NAME, AUDIENCE = "https://issuer", "kafka"
"""What the tokens name; a broker from 4.4 on does not start unless it is configured to check both."""

CLIENT, SECRET = "alice", "hidden-of-alice"


class TokenIssuer:
    """Listens on a free port.

    Attributes:
        lifetime_s: of the tokens that it issues from now on.
        is_open: whether it issues any.
    """

    def __init__(self) -> None:
        self.lifetime_s = 600
        self.is_open = True
        self._key = RSAKey.generate_key(2048, {"kid": "only", "alg": "RS256", "use": "sig"})
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(200, {"keys": [issuer._key.as_dict(private=False)]})

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if not issuer.is_open or self.headers.get("Authorization") != _basic(CLIENT, SECRET):
                    self._answer(401, {"error": "invalid_client"})
                else:
                    self._answer(200, {"access_token": issuer.token(), "token_type": "Bearer"})

            def _answer(self, status: int, content: object) -> None:
                body = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Nothing: pytest shows what fails."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def token(self) -> str:
        now_s = int(time.time())
        claims = {
            "iss": NAME,
            "sub": CLIENT,
            "aud": AUDIENCE,
            "scope": "kafka",
            "iat": now_s,
            "exp": now_s + self.lifetime_s,
        }
        return jwt.encode({"alg": "RS256", "kid": "only"}, claims, self._key)

    @contextmanager
    def lifetime(self, seconds: int) -> Iterator[None]:
        """Tokens that live so long, within the block."""
        self.lifetime_s, before = seconds, self.lifetime_s
        try:
            yield
        finally:
            self.lifetime_s = before

    @contextmanager
    def closed(self) -> Iterator[None]:
        """No tokens, within the block."""
        self.is_open = False
        try:
            yield
        finally:
            self.is_open = True

    @property
    def token_url(self) -> str:
        return f"{self._url}/token"

    @property
    def keys_url(self) -> str:
        return f"{self._url}/keys"

    @property
    def _url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @contextmanager
    def serving(self) -> Iterator[TokenIssuer]:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()


def _basic(name: str, secret: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{secret}".encode()).decode()
