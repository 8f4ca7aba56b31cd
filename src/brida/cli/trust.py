"""``brida trust``: shows what a project's file would do, asks, and keeps the answer."""

import json
import os
import sys
from pathlib import Path

import click

from brida.cli.screen import Screen, somebody_is_there
from brida.core.stops import EXIT_CODES
from brida.errors import ConfigurationError
from brida.pricing import per_million
from brida.settings.files import (
    FILE_NAMES,
    SettingsFile,
    find_project_file,
    flat,
    read_project_file,
    read_user_file,
)
from brida.settings.load import refused_prices, refused_prices_line
from brida.settings.merge import Layers, Project, merged
from brida.settings.schema import dotted, without_password
from brida.settings.trust import TrustStore
from brida.texts.catalogue import N_, Catalogue
from brida.texts.terminal import escape

YES = N_("y yes")
"""The words that mean yes."""


def trust_command(say: Catalogue, screen: Screen) -> click.Command:
    """The command ``trust``."""

    def trust(directory: str, yes: bool, forget: bool, listed: bool, **_: str | None) -> int:
        if yes + forget + listed > 1:
            raise click.UsageError(say("--yes, --forget and --list exclude each other: choose one"))
        store = TrustStore.of_user(say)
        if listed:
            return list_trusted(store, screen, say)
        start = _directory(directory, say)
        return (
            forget_file(start, store, screen, say) if forget else trust_file(start, store, screen, say, yes)
        )

    def switch(name: str, help: str) -> click.Option:
        return click.Option([name], is_flag=True, help=help)

    return click.Command(
        "trust",
        callback=trust,
        help=say("Shows what the settings of a project would do, and asks whether they may."),
        options_metavar=say("[OPTIONS]"),
        params=[
            click.Argument(["directory"], required=False, default=".", metavar=say("[DIRECTORY]")),
            switch("--yes", say("Trust without asking.")),
            switch("--forget", say("Trust the file of the directory no longer.")),
            click.Option(["--list", "listed"], is_flag=True, help=say("List the files that are trusted.")),
            click.Option(
                ["--lang"], metavar="en|es|pt", help=say("The language, by default that of the locale.")
            ),
        ],
    )


def trust_file(start: Path, store: TrustStore, screen: Screen, say: Catalogue, yes: bool) -> int:
    """Trusts the file that counts in the directory, if a person says so; gives the exit code.

    What is trusted is what was shown, whatever the file says by the time of the answer. A no is 3; where
    nobody is there to be asked it raises :class:`ConfigurationError`.
    """
    file = find_project_file(start, say)
    if file is None:
        raise ConfigurationError(
            say("there is no brida.toml and no [tool.brida], from {directory} upwards", directory=start)
        )
    state = store.state(file)
    if state == "trusted":
        screen.line(say("{file} is trusted already, as it is", file=file.path))
        return 0
    if state == "changed":
        screen.line(say("{file} has changed since it was trusted", file=file.path))
    for line in would_take_effect(file, say):
        screen.line(line)
    if not yes and not _says_yes(file, screen, say):
        screen.line(say("not trusted"))
        return EXIT_CODES["stopped"]
    store.trust(file)
    screen.line(say("trusted: {file}. A change of it will ask again", file=file.path))
    return 0


def would_take_effect(file: SettingsFile, say: Catalogue) -> list[str]:
    """What the file says, a line for each key; a mark where it counts only if it is trusted."""
    user_file = read_user_file(say)
    user = {} if user_file is None else user_file.layer
    effective = merged(Layers(user=user, project=Project(file)))
    loosening = {one.key for one in effective.ignored if one.for_want_of_trust}
    lines = [say("{file} says:", file=file.path)]
    for key, value in flat({name: one for name, one in file.table.items() if name != "prices"}):
        loosens = key in loosening or key.startswith("agents.")
        text = json.dumps(without_password(value), ensure_ascii=False)
        lines.append(f"  {'!' if loosens else ' '} {key} = {text}")
    for name, prices in file.prices.items():
        each = ", ".join(f"{field} = {dollars}" for field, dollars in per_million(prices).items())
        lines.append(f"    {dotted(('prices', name))}: {each}")
    if refused := refused_prices(file, user_file):
        lines.append(refused_prices_line(file, refused, say))
    if any(line.startswith("  !") for line in lines):
        lines.append(
            say("! loosens, loads code, names a server or a model: it counts only if you trust the file")
        )
    return lines


def _says_yes(file: SettingsFile, screen: Screen, say: Catalogue) -> bool:
    if not somebody_is_there(screen):
        raise ConfigurationError(say("nobody is there to be asked: brida trust --yes trusts without asking"))
    _discard_typed()  # what was typed before the question is no answer to it
    screen.raw_error(escape(say("trust {file}? [y/N]", file=file.path)) + " ")
    return sys.stdin.readline().strip().lower() in say(YES).split()


def _discard_typed() -> None:
    try:
        import termios

        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    except (ImportError, OSError):
        return


def forget_file(start: Path, store: TrustStore, screen: Screen, say: Catalogue) -> int:
    """Trusts the nearest file upwards no longer, be it still there or not; gives the exit code."""
    entries = store.entries()
    paths = (directory / name for directory in (start, *start.parents) for name in FILE_NAMES)
    path = next((path for path in paths if os.path.realpath(path) in entries), None)
    if path is None:
        screen.line(say("nothing is trusted, from {directory} upwards", directory=start))
    else:
        store.forget(path)
        screen.line(say("no longer trusted: {file}", file=path))
    return 0


def list_trusted(store: TrustStore, screen: Screen, say: Catalogue) -> int:
    """Prints the trusted files, a line each, and whether each is still as it was; gives the exit code."""
    for path, digest in sorted(store.entries().items()):
        try:
            file = read_project_file(Path(path), say)
            state = say("not there") if file is None else say("trusted")
            if file is not None and file.digest != digest:
                state = say("changed since")
        except ConfigurationError:
            state = say("cannot be read")
        screen.out(f"{escape(path)} ({state})\n")
    return 0


def _directory(given: str, say: Catalogue) -> Path:
    path = Path(given)
    try:
        if path.is_dir():
            return path.resolve()
    except (OSError, ValueError):
        pass
    raise ConfigurationError(say("{path} is no directory", path=given))
