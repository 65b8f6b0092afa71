"""``oncelog ui``: a page of what a log, or the ledgers of a place, are doing."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from oncelog.cli.exporter import open_source
from oncelog.cli.output import show, show_json
from oncelog.cli.shell import Command, Settings
from oncelog.errors import UsageError
from oncelog.metrics.addresses import Address, parse_address
from oncelog.metrics.sources import Reopening, Source
from oncelog.ui.troubles import Commands
from oncelog.ui.view import Told
from oncelog.ui.watching import Watcher

TOKEN_VARIABLE = "ONCELOG_UI_TOKEN"
MIN_TOKEN_CHARACTERS = 16


listen_option = click.option(
    "--listen",
    metavar="HOST:PORT",
    default="127.0.0.1:9466",
    show_default=True,
    help="Where to serve the page. Beyond loopback it needs a token.",
)
token_option = click.option(
    "--token-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A file with the token that viewers must have. Or set ONCELOG_UI_TOKEN.",
)


driver_option = click.option(
    "--driver",
    "drivers",
    multiple=True,
    metavar="HOST:PORT",
    help="Also show the queries of a driver that oncelog.spark.observe serves there; may be repeated.",
)


@click.command(cls=Command, example="oncelog ui --path /data/log --listen 127.0.0.1:9466")
@listen_option
@token_option
@driver_option
@click.pass_obj
def ui(settings: Settings, listen: str, token_file: Path | None, drivers: tuple[str, ...]) -> None:
    """Serve a page of what is stuck, and how to fix it.

    Serves until it is interrupted. Shows open transactions and rounds, last stable offsets, sinks, groups with their
    lag, and decisions. With --znodes and without --path, it shows all ledgers of that place. It only reads, and runs no
    command.
    """
    serve(settings, lambda: open_source(settings), Commands(place_options(settings)), listen, token_file, drivers)


def place_options(settings: Settings) -> tuple[str, ...]:
    """The options that name the place in any shell. A URI that may have a password is left out."""
    path, uri = settings.named_place, settings.znodes_uri
    if path is not None and "://" not in path:
        path = str(Path(path).absolute())
    if uri is not None and ("@" in uri or "?" in uri):
        uri = None
    words = (("--path", path), ("--znodes", uri))
    return tuple(word for name, value in words if value is not None for word in (name, value))


def _token(file: Path | None) -> str | None:
    if file is None:
        return os.environ.get(TOKEN_VARIABLE) or None
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise UsageError("cannot read the file of the token", token_file=str(file), problem=str(problem)) from problem


def serve(
    settings: Settings,
    opening: Callable[[], Source],
    commands: Commands,
    listen: str,
    token_file: Path | None,
    drivers: Sequence[str],
) -> None:
    """Serve a source as a page until the process is interrupted.

    Args:
        opening: opens it, and opens it again after a read that failed.
        commands: writes the commands that the page shows.
        listen: the address, as the user wrote it.
        token_file: has the token that viewers must have, if the variable of the environment does not.
        drivers: where drivers serve their metrics, as the user wrote it.
    """
    try:
        from oncelog.ui import app

        asked, tell = _asked(drivers) if drivers else ([], lambda: None)
    except ModuleNotFoundError as missing:  # the message names the extra to install
        raise click.ClickException(str(missing)) from None
    address = parse_address(listen)
    token = _token(token_file)
    check_token(address, token)
    source = Reopening(opening)

    def announce(url: str) -> None:
        if settings.as_json:
            show_json({"url": url})
        else:
            show(f"serving {url}")
        sys.stdout.flush()

    try:
        named = commands.place[1] if commands.place else "a place with ledgers"
        page = app.Page(Watcher(source.read), commands, named, asked, tell)
        app.serve(page, address, token, announce)
    finally:
        source.close()


def _asked(addresses: Sequence[str]) -> tuple[list[Watcher], Callable[[], Told | None]]:
    """Who asks these drivers, and what they said last."""
    from oncelog.ui import drivers

    found = [drivers.watch(parse_address(one)) for one in addresses]
    return [one.watcher for one in found], lambda: drivers.tell(found)


def check_token(address: Address, token: str | None) -> None:
    """Whether this token is enough for this address.

    Raises:
        UsageError: other machines reach the address and there is no token, or the token can be guessed.
    """
    if token is None and not address.is_loopback:
        raise UsageError(
            "other machines reach this address, so the page needs a token: --token-file FILE, or ONCELOG_UI_TOKEN",
            listen=str(address),
        )
    if token is not None and len(token) < MIN_TOKEN_CHARACTERS:
        raise UsageError("the token is too short; make one with: openssl rand -hex 16", characters=MIN_TOKEN_CHARACTERS)
