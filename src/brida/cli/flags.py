"""The flags that every command with an agent takes: one for each setting that has one, and those of a run."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import click

from brida.core.wording import Say
from brida.errors import ConfigurationError
from brida.settings.schema import shown_value
from brida.settings.table import SETTINGS, Setting
from brida.settings.values import Given, Layer, Source

ROWS: Final[Mapping[str, Setting]] = {
    row.key.replace(".", "_"): row for row in SETTINGS if row.flag is not None
}
"""The settings that have a flag, by the name of click's parameter."""

SHORT: Final = {
    "--closing-reply": "--closing-reply=on",
    "--no-journal": "--journal=off",
    "--no-cache": "--cache=off",
    "--park": "--on-ask=park",
}
"""Flags that stand alone, and what they are short for."""


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags as they were given; None and empty where they were not."""

    settings: Layer
    agent: str | None = None
    yes_to: tuple[str, ...] = ()
    root: str = "."
    quiet: bool = False

    @classmethod
    def of(cls, **values: Any) -> "Flags":
        """The flags from the values of click's parameters."""
        settings = {}
        for name, row in ROWS.items():
            given = values.get(name)
            if given is None or given == ():
                continue
            value = tuple(one.value for one in given) if row.repeated else given.value
            settings[row.key] = Given(value, Source("flag", str(row.flag)))
        return cls(
            settings,
            agent=values["agent"],
            yes_to=values["yes_to"],
            root=values.get("root", "."),
            quiet=values.get("quiet", False),
        )

    def directory(self, say: Say) -> Path:
        """The project directory; raises :class:`ConfigurationError` where ``--root`` is none."""
        path = Path(self.root)
        try:
            if path.is_dir():
                return path.resolve()
        except (OSError, ValueError):
            pass
        raise ConfigurationError(say("--root: {path} is no directory", path=self.root))

    def layer(self, root: Path) -> Layer:
        """The settings among the flags; modules of ``--tools`` come from the project directory."""
        return {
            key: replace(given, source=replace(given.source, directory=root)) if key == "tools" else given
            for key, given in self.settings.items()
        }


@dataclass(frozen=True, slots=True)
class _Read:
    """What a flag says, once it was checked: click takes None for a flag that was not given."""

    value: object


class _Value(click.ParamType[_Read]):
    """The value of a setting, checked as it would be in a file."""

    def __init__(self, row: Setting, say: Say) -> None:
        self._row, self._say = row, say
        self.name = row.key

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> _Read:
        """The value that counts."""
        if isinstance(value, _Read):
            return value
        kind = self._row.kind
        try:
            checked = kind.check([value] if self._row.repeated else kind.read(value))
        except ValueError:
            shown = shown_value(self._row, value)
            words = self._say("expected {expected}, got {value}", expected=kind.words(self._say), value=shown)
            raise click.BadParameter(words, ctx, param) from None
        return _Read(checked[0] if self._row.repeated and isinstance(checked, tuple) else checked)


class CommandWithSettings(click.Command):
    """A command some of whose flags may stand alone: what follows them is never their value."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses the flags."""
        return super().parse_args(ctx, in_full(args))


def in_full(arguments: list[str]) -> list[str]:
    """The arguments with what :data:`SHORT` flags are short for."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    for flag, value in pairwise(arguments[:end]):
        if flag == "--closing-reply" and value.isdecimal():
            raise click.UsageError(f"{flag} {value}: {flag}={value}")
    return [SHORT.get(one, one) for one in arguments[:end]] + arguments[end:]


def options_of_a_resumed_run(say: Say) -> list[click.Parameter]:
    """Those of the settings that may be changed while a run goes on."""
    kept = ("limits_", "on_ask", "journal")
    return [
        one
        for one in setting_options(say)
        if str(one.name).startswith(kept) or one.name in ("agent", "yes_to")
    ]


def setting_options(say: Say) -> list[click.Parameter]:
    """The options of the settings, and those that say which agent runs where."""
    of_settings: list[click.Parameter] = [
        click.Option(
            [str(row.flag), name],
            type=_Value(row, say),
            multiple=row.repeated,
            metavar=say(row.metavar),
            help=say(row.help),
        )
        for name, row in ROWS.items()
    ]
    return [
        click.Option(
            ["--agent"],
            metavar="MODULE:NAME|NAME",
            help=say("An agent of your own code, or one that the settings describe."),
        ),
        *of_settings,
        click.Option(
            ["--yes-to"],
            multiple=True,
            metavar="TOOL",
            help=say("Answers the questions about a tool with yes, for this run."),
        ),
        click.Option(
            ["--root"],
            metavar="DIRECTORY",
            default=".",
            help=say("The project directory of the file tools."),
        ),
    ]
