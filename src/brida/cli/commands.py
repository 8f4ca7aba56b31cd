"""The commands and their flags."""

import difflib
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

import click

from brida.cli.doctor import doctor_command
from brida.cli.screen import Screen
from brida.cli.settings import Flags
from brida.texts.catalogue import Catalogue

NOT_A_TASK: Final = ("--help", "--version")


class DefaultToRun(click.Group):
    """The group in which ``brida "task"`` is short for ``brida run "task"``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Puts ``run`` in front of what is no command, unless it looks like a command misspelled."""
        if not args or (args[0] not in self.commands and args[0] not in NOT_A_TASK):
            self._check_words(ctx, args)
            args = ["run", *args]
        return super().parse_args(ctx, args)

    def _check_words(self, ctx: click.Context, args: list[str]) -> None:
        """One bare word close to a command's name is a slip, not a task to pay for."""
        word, *further = args or [""]
        values = [value for before, value in zip(args, further, strict=False) if not before.startswith("-")]
        if word.startswith("-") or len(word.split()) != 1 or any(not v.startswith("-") for v in values):
            return
        close = difflib.get_close_matches(word.lower(), [*self.commands, "help", "version"], cutoff=0.6)
        if close:
            say: Catalogue = ctx.obj
            ctx.fail(
                say(
                    "there is no command {word}; did you mean brida {command}? "
                    "A task of one word: brida run {word}",
                    word=word,
                    command=close[0] if close[0] in self.commands else f"--{close[0]}",
                )
            )


class Limit(click.ParamType[int | None]):
    """A whole number, or ``off`` where a limit can be switched off."""

    name = "integer"

    def __init__(self, say: Catalogue, *, least: int) -> None:
        self._say, self._least = say, least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        """The number; None for ``off``."""
        if value is None or isinstance(value, int) or value == "off":
            return None if value == "off" else value
        if value.isascii() and value.isdigit() and len(value) < 19 and int(value) >= self._least:
            return int(value)
        words = self._say("{value} is no whole number from {least}, nor off", value=value, least=self._least)
        raise click.BadParameter(words, ctx, param)


def build(say: Catalogue, screen: Screen) -> click.Command:
    """The command line in the language of ``say``."""
    group = DefaultToRun(
        "brida",
        help=say(
            'Runs a language model with tools in a loop, and you keep the reins. brida "task" is short for '
            'brida run "task"; brida run --help shows every flag.'
        ),
        options_metavar=say("[OPTIONS]"),
        subcommand_metavar=say("COMMAND [ARGUMENTS]"),
        context_settings={"obj": say, "help_option_names": ["--help"], "max_content_width": 100},
        params=[
            click.Option(
                ["--version"],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=_show_version(screen),
                help=say("Show the version and exit."),
            )
        ],
    )
    group.add_command(_run_command(say, screen))
    group.add_command(doctor_command(say, screen))
    return group


def _show_version(screen: Screen) -> Callable[[click.Context, click.Parameter, bool], None]:
    def show(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
        if value:
            screen.out(f"brida {_version()}\n")
            ctx.exit(0)

    return show


def _version() -> str:
    try:
        return version("brida")
    except PackageNotFoundError:
        return "(from its source, not installed)"


def _run_command(say: Catalogue, screen: Screen) -> click.Command:
    def run(**values: Any) -> int:
        if values["json"] and values["events"]:
            raise click.UsageError(say("--json and --events exclude each other: choose one"))
        from brida.cli.task import run_task

        return run_task(Flags(**values), say, screen)

    return click.Command(
        "run",
        callback=run,
        help=say("Runs a task until it stops. - reads the task from the standard input."),
        options_metavar=say("[OPTIONS]"),
        params=[click.Argument(["task"], required=False, metavar=say("[TASK]")), *_options(say)],
    )


def _option(*names: str, help: str, **settings: Any) -> click.Option:
    return click.Option(names, help=help, **settings)


def _repeated(name: str, metavar: str, help: str) -> click.Option:
    return _option(name, multiple=True, metavar=metavar, help=help)


def _switch(name: str, help: str) -> click.Option:
    return _option(name, is_flag=True, help=help)


def _options(say: Catalogue) -> list[click.Parameter]:
    counted = Limit(say, least=1)
    number, seconds = say("NUMBER"), say("SECONDS")
    return [
        _option("--model", metavar="NAME", help=say("The model; embedded needs no key and no network.")),
        _option("--base-url", metavar="URL", help=say("A server that speaks the Messages API.")),
        _option("--system", metavar="TEXT|@FILE", help=say("The system prompt, or the file that holds it.")),
        _option(
            "--max-tokens",
            type=click.IntRange(1),
            metavar=number,
            default=4096,
            help=say("Tokens of one reply."),
        ),
        _repeated("--stop-sequence", "TEXT", say("A text at which the model stops; can be repeated.")),
        _option(
            "--max-turns", type=click.IntRange(0), metavar=number, default=8, help=say("Turns of tool calls.")
        ),
        _option("--max-requests", type=click.IntRange(1), metavar=number, help=say("Requests to the model.")),
        _option(
            "--max-tokens-total",
            type=counted,
            metavar=number,
            default=40_000,
            help=say("Tokens of the whole run, or off."),
        ),
        _option("--deadline", type=float, metavar=seconds, help=say("Seconds of work.")),
        _repeated("--allow", "RULE", say("Tools, by name or glob, that may run without asking.")),
        _repeated("--ask", "RULE", say("Tools for which a person is asked.")),
        _repeated("--deny", "RULE", say("Tools that never run.")),
        _repeated("--yes-to", "TOOL", say("Answers the questions about a tool with yes, for this run.")),
        _repeated(
            "--tools", "none|BUILTIN|MODULE:NAME", say("none drops the built-in tools, others are added.")
        ),
        _option(
            "--root", metavar="DIRECTORY", default=".", help=say("The project directory of the file tools.")
        ),
        _option("--lang", metavar="en|es|pt", help=say("The language, by default that of the locale.")),
        _switch("--json", say("Print one JSON object on stdout.")),
        _switch("--events", say("Print every event as a line of JSON on stdout.")),
        _switch("--quiet", say("No trace and no closing line.")),
        _switch("--debug", say("Show where a bug in brida happened.")),
        _switch("--fail-on-declined", say("Exit with 3 where a call was declined.")),
    ]
