"""Serves the page over HTTP. The home of starlette and uvicorn.

Every answer is to a GET, so nothing here can write. Beyond loopback all of it asks for a token. On loopback a request
must name this machine: a page of another site whose name was pointed at 127.0.0.1 gets nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import socket
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache
from pathlib import Path
from typing import Final

from oncelog.extras import extras

with extras("ui", part="oncelog ui"):
    import uvicorn
    from starlette.applications import Starlette
    from starlette.datastructures import MutableHeaders
    from starlette.requests import Request
    from starlette.responses import FileResponse, PlainTextResponse, Response, StreamingResponse
    from starlette.routing import Mount, Route
    from starlette.staticfiles import StaticFiles
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

from oncelog.errors import UsageError
from oncelog.metrics.addresses import LOOPBACK, Address
from oncelog.ui.troubles import Commands
from oncelog.ui.view import Told, view
from oncelog.ui.watching import Watcher

STATIC: Final = Path(__file__).parent / "static"
COOKIE: Final = "oncelog_ui"
TICK_SECONDS: Final = 0.2
CLOSING_SECONDS: Final = 1.0
"""How long a shutdown waits for a read, so that its source can be closed."""

MAX_VIEWERS: Final = 100
"""Each holds a connection open. More than that is no group of operators."""

HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class Door:
    """Lets in who may look, and gives each answer the headers that keep a browser from loading anything else.

    Args:
        app: what is behind it.
        token: what a request must have; None on loopback, where its Host must be this machine.
    """

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        is_visit = self._is_token(request.query_params.get("token", ""))

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                if is_visit and self._token is not None:
                    headers.append("Set-Cookie", f"{COOKIE}={_cookie(self._token)}; HttpOnly; SameSite=Strict; Path=/")
            await send(message)

        app = self._app if is_visit or self._may_enter(request) else self._refusal()
        await app(scope, receive, send_with_headers)

    def _is_token(self, given: str) -> bool:
        return self._token is not None and _same(given, self._token)

    def _may_enter(self, request: Request) -> bool:
        if self._token is None:
            return LOOPBACK.admits(request.headers.get("host", ""))
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._is_token(given.strip()):
            return True
        return _same(request.cookies.get(COOKIE, ""), _cookie(self._token))

    def _refusal(self) -> Response:
        if self._token is None:
            return PlainTextResponse("oncelog ui: open this page as http://127.0.0.1 or http://localhost", 403)
        return PlainTextResponse(
            "oncelog ui: open this page as /?token=TOKEN, or send Authorization: Bearer TOKEN", 401
        )


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), expected.encode(errors="replace"))


def _cookie(token: str) -> str:
    """What a browser keeps in the token's place: nobody can read the token from it."""
    return hashlib.sha256(b"oncelog ui cookie:" + token.encode()).hexdigest()


State = tuple[tuple[int, str | None], ...]
"""What the readings are that a page shows: the version and the problem of each watcher."""


class Page:
    """The routes, and the loops that read.

    Args:
        watcher: what is shown.
        commands: writes the commands to copy.
        place: the name of what is watched.
        drivers: those that are asked for their queries.
        tell: what they said last.
    """

    def __init__(
        self,
        watcher: Watcher,
        commands: Commands,
        place: str,
        drivers: Sequence[Watcher] = (),
        tell: Callable[[], Told | None] = lambda: None,
    ) -> None:
        self._watchers = [watcher, *drivers]
        self._viewers = 0

        # A page takes some milliseconds of the thread that answers everybody: who look at the same share one.
        @lru_cache(maxsize=MAX_VIEWERS)
        def render(state: State, wanted: str) -> str:
            return json.dumps(view(watcher, commands, place, wanted, tell()))

        self._render: Callable[[State, str], str] = render

    def app(self, token: str | None) -> ASGIApp:
        """The application, behind its door."""
        routes = [
            Route("/", lambda _: FileResponse(STATIC / "index.html"), methods=["GET"]),
            Route("/snapshot.json", self._snapshot, methods=["GET"]),
            Route("/events", self._events, methods=["GET"]),
            Mount("/static", StaticFiles(directory=STATIC)),
        ]
        return Door(Starlette(routes=routes, lifespan=self._reading), token)

    @asynccontextmanager
    async def _reading(self, _: Starlette) -> AsyncIterator[None]:
        is_over = threading.Event()
        # Daemons: Python waits for the threads of an executor when it ends, also for a store that never answers.
        store, *drivers = (
            threading.Thread(target=self._read, args=(watcher, is_over), name="oncelog-ui", daemon=True)
            for watcher in self._watchers
        )
        for reader in (store, *drivers):
            reader.start()
        try:
            yield
        finally:
            is_over.set()
            store.join(CLOSING_SECONDS)

    def _read(self, watcher: Watcher, is_over: threading.Event) -> None:
        while True:
            watcher.look_if_due(self._viewers)
            if is_over.wait(TICK_SECONDS):
                return

    async def _snapshot(self, request: Request) -> Response:
        return Response(self._render(self._newest(), _wanted(request)), media_type="application/json")

    async def _events(self, request: Request) -> Response:
        if self._viewers >= MAX_VIEWERS:
            return PlainTextResponse("oncelog ui: too many look at this page", 503)
        return StreamingResponse(self._stream(_wanted(request)), media_type="text/event-stream")

    async def _stream(self, wanted: str) -> AsyncIterator[str]:
        """The page, and again whenever it was read or the store does not answer. A browser that is gone cancels it."""
        self._viewers += 1
        try:
            sent: State | None = None
            while True:
                newest = self._newest()
                if newest != sent:
                    sent = newest
                    yield f"data: {self._render(newest, wanted)}\n\n"
                await asyncio.sleep(TICK_SECONDS)
        finally:
            self._viewers -= 1

    def _newest(self) -> State:
        return tuple((one.version, one.problem) for one in self._watchers)


def _wanted(request: Request) -> str:
    return request.query_params.get("filter", "")[:200]


def serve(page: Page, address: Address, token: str | None, announce: Callable[[str], None]) -> None:
    """Serve until the process is interrupted.

    Args:
        announce: gets the URL, once the socket listens.

    Raises:
        UsageError: this process may not listen there, or another one does.
    """
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        listening = socket.create_server((address.host, address.port), family=family)
    except OSError as problem:
        raise UsageError(
            "cannot listen at this address; choose another one, or stop who listens there",
            listen=str(address),
            problem=str(problem),
        ) from problem
    with listening:
        announce(f"http://{address._replace(port=listening.getsockname()[1])}/")
        config = uvicorn.Config(page.app(token), log_level="warning", access_log=False, timeout_graceful_shutdown=1)
        uvicorn.Server(config).run(sockets=[listening])
