"""Who gets the page, and what it may load."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.types import ASGIApp, Message, Scope

import oncelog.ui
from oncelog.cli.shell import Settings
from oncelog.cli.ui import check_token, place_options
from oncelog.errors import UsageError
from oncelog.metrics.addresses import Address
from oncelog.metrics.reading import Reading
from oncelog.ui import app
from oncelog.ui.app import COOKIE, MAX_VIEWERS, Page
from oncelog.ui.troubles import Commands
from oncelog.ui.view import view
from oncelog.ui.watching import UNSEEN_SECONDS, Watcher
from tests.support.log.shell import Shell, finished, started_command

TOKEN = "0123456789abcdef"
LOCAL = "http://127.0.0.1:9466"
ELSEWHERE = "http://log-host:9466"

NEVER_ANSWERS = """
import threading
from oncelog.metrics.addresses import Address
from oncelog.ui import app, troubles, watching

def read():
    print("reading", flush=True)
    threading.Event().wait()

page = app.Page(watching.Watcher(read), troubles.Commands(()), "a log")
app.serve(page, Address("127.0.0.1", 0), None, lambda url: None)
"""


class Client:
    """Asks the application itself, with no server between. Cookies are kept, as a browser does."""

    def __init__(self, token: str | None = None, url: str = LOCAL, watcher: Watcher | None = None) -> None:
        page = Page(watcher or Watcher(lambda: Reading([])), Commands(("--path", "/log")), "/log")
        self._app = page.app(token)
        self._url = url
        self._cookies = httpx.Cookies()

    def ask(self, method: str, path: str, headers: Mapping[str, str] | None = None) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(app=self._app)
            async with httpx.AsyncClient(transport=transport, base_url=self._url, cookies=self._cookies) as client:
                raw = {name.encode(): value.encode("latin-1") for name, value in (headers or {}).items()}
                answer = await client.request(method, path, headers=raw)
                self._cookies = client.cookies
                return answer

        return asyncio.run(ask())

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> httpx.Response:
        return self.ask("GET", path, headers)


@pytest.fixture
def local() -> Client:
    return Client()


@pytest.mark.parametrize("path", ["/", "/snapshot.json", "/static/ui.js", "/static/ui.css", "/none"])
def test_every_answer_forbids_the_browser_to_load_or_run_what_is_not_of_this_page(local: Client, path: str) -> None:
    policy = local.get(path).headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


@pytest.mark.parametrize("host", ["127.0.0.1:9466", "localhost:1", "LOCALHOST", "[::1]:9466", "[::1]"])
def test_a_request_that_names_this_machine_gets_the_page(local: Client, host: str) -> None:
    assert local.get("/", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example:9466",
        "localhost.evil",
        "",
        "10.0.0.1",
        "[::1].evil.example",
        "[::1]evil:9466",
        "[::2]",
        "evil.example:[::1]",
        "127.0.0.1:9466:evil.example",
        "[]",
    ],
)
def test_a_name_that_was_pointed_at_this_machine_gets_nothing(local: Client, host: str) -> None:
    for path in ("/", "/snapshot.json", "/events", "/static/ui.js"):
        assert local.get(path, headers={"host": host}).status_code == 403


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize("path", ["/", "/snapshot.json", "/events", "/static/ui.js"])
def test_nothing_can_be_written(local: Client, method: str, path: str) -> None:
    assert local.ask(method, path).status_code == 405


@pytest.mark.parametrize("path", ["/static/../app.py", "/static/%2e%2e/app.py", "/static//etc/passwd"])
def test_no_other_file_is_served(local: Client, path: str) -> None:
    assert local.get(path).status_code == 404


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": f"Basic {TOKEN}"},
        {"authorization": "Bearer"},
        {"authorization": "Bearer \xff"},
        {"cookie": f"{COOKIE}={TOKEN}"},
        {"cookie": f"{COOKIE}="},
    ],
)
def test_without_the_token_there_is_nothing(headers: dict[str, str]) -> None:
    opened = Client(TOKEN, ELSEWHERE)
    for path in ("/", "/snapshot.json", "/events", "/static/ui.js", "/?token=", "/?token=wrong"):
        answer = opened.get(path, headers=headers)
        assert answer.status_code == 401
        assert "set-cookie" not in answer.headers


def test_the_token_of_a_first_visit_becomes_a_cookie_that_does_not_tell_it() -> None:
    opened = Client(TOKEN, ELSEWHERE)
    first = opened.get(f"/?token={TOKEN}")
    assert first.status_code == 200
    cookie = first.headers["set-cookie"]
    assert cookie.endswith("HttpOnly; SameSite=Strict; Path=/")
    assert TOKEN not in cookie
    assert opened.get("/snapshot.json").status_code == 200


def test_a_program_sends_the_token_in_a_header() -> None:
    assert Client(TOKEN, ELSEWHERE).get("/snapshot.json", {"authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_the_command_refuses_to_serve_others_without_a_token_and_says_how(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "log")
    named = shell.refused("ui", "--listen", "0.0.0.0:0", exit_code=2, ONCELOG_UI_TOKEN=None)
    assert "--token-file FILE, or ONCELOG_UI_TOKEN" in named
    lost = shell.refused("ui", "--token-file", str(tmp_path / "none"), exit_code=2)
    assert "cannot read the file of the token" in lost


@pytest.mark.parametrize("uri", ["postgresql://me:secret@db/ledger", "postgresql://db/ledger?password=secret"])
def test_a_password_of_the_place_is_not_shown(uri: str) -> None:
    assert place_options(Settings(path="/data/log", znodes=uri)) == ("--path", "/data/log")


def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "oncelog.ui.app", raising=False)
    monkeypatch.delattr(oncelog.ui, "app", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)

    assert "install oncelog[ui]" in Shell(tmp_path / "log").refused("ui", exit_code=2)


def test_an_address_that_is_taken_is_said(tmp_path: Path) -> None:
    with oncelog.open(tmp_path / "log"), socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        assert "cannot listen at this address" in Shell(tmp_path / "log").refused("ui", "--listen", listen, exit_code=2)


@pytest.mark.parametrize(
    ("host", "token", "is_enough"),
    [
        ("127.0.0.1", None, True),
        ("::1", None, True),
        ("0.0.0.0", None, False),
        ("log-host", None, False),
        ("0.0.0.0", TOKEN, True),
        ("0.0.0.0", "short", False),
        ("127.0.0.1", "", False),
    ],
)
def test_an_address_that_others_reach_needs_a_token(host: str, token: str | None, is_enough: bool) -> None:
    if is_enough:
        check_token(Address(host, 9466), token)
    else:
        with pytest.raises(UsageError, match="token"):
            check_token(Address(host, 9466), token)


def test_all_who_look_at_the_same_share_one_page_until_the_next_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []

    def counted(watcher: Watcher, commands: Commands, place: str, wanted: str, told: None) -> dict[str, Any]:
        drawn.append(wanted)
        return view(watcher, commands, place, wanted, told)

    monkeypatch.setattr(app, "view", counted)
    seconds, walls = count(0, UNSEEN_SECONDS), count(1)
    watcher = Watcher(lambda: Reading([]), monotonic=lambda: next(seconds), wall_ms=lambda: next(walls))
    opened = Client(watcher=watcher)

    seen = []
    for _ in range(2):
        watcher.look_if_due(10)
        seen += [opened.get(path).json()["read_ms"] for path in ["/snapshot.json", "/snapshot.json?filter=t"] * 10]

    assert drawn == ["", "t"] * 2
    assert len(set(seen[:20])) == len(set(seen[20:])) == 1
    assert seen[0] < seen[20]


class Viewer:
    """Looks at the page's events, as a browser does, until it leaves."""

    def __init__(self, app: ASGIApp) -> None:
        self.status: int | None = None
        self._has_answer = asyncio.Event()
        scope: Scope = {"type": "http", "method": "GET", "path": "/events", "query_string": b""}
        scope["headers"] = [(b"host", b"[::1]")]
        self._task = asyncio.ensure_future(app(scope, self._stay, self._hear))

    @staticmethod
    async def _stay() -> Message:
        """No word from the browser: it is still there."""
        return await asyncio.Future()

    async def _hear(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self._has_answer.set()

    async def answered(self) -> int | None:
        await self._has_answer.wait()
        return self.status

    async def leave(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


def test_one_viewer_too_many_is_told_so_until_another_one_leaves() -> None:
    opened = Page(Watcher(lambda: Reading([])), Commands(()), "/log").app(None)

    async def look() -> list[int | None]:
        viewers = [Viewer(opened) for _ in range(MAX_VIEWERS)]
        seen = [await one.answered() for one in viewers]
        viewers.append(Viewer(opened))
        seen.append(await viewers[-1].answered())
        await viewers.pop(0).leave()
        viewers.append(Viewer(opened))
        seen.append(await viewers[-1].answered())
        for one in viewers:
            await one.leave()
        return seen

    assert asyncio.run(look()) == [200] * MAX_VIEWERS + [503, 200]


@pytest.mark.slow
def test_a_store_that_never_answers_holds_up_no_exit() -> None:
    process = started_command(program=("-c", NEVER_ANSWERS))
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "reading\n"
        process.send_signal(signal.SIGINT)
        code, _, errors = finished(process)
        assert code == -signal.SIGINT, errors
    finally:
        process.kill()
        process.wait(60)
