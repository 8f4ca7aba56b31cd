"""The commands and their flags."""

import difflib
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

import click

from brida.cli.answering import approve_command, decline_command, pending_command, settle_command
from brida.cli.budget import budget_command
from brida.cli.config import config_command
from brida.cli.doctor import doctor_command
from brida.cli.flags import CommandWithSettings, Flags, setting_options
from brida.cli.journal_option import complete_ids
from brida.cli.listing import gc_command, rm_command, runs_command
from brida.cli.reaching import completion_command, steer_command, stop_command
from brida.cli.replaying import fork_command, replay_command
from brida.cli.resuming import resume_command
from brida.cli.screen import Screen
from brida.cli.timeline import export_command, show_command
from brida.cli.trust import trust_command
from brida.cli.usage import usage_command
from brida.texts.catalogue import Catalogue

IMPLIED: Final = "brida.run_is_implied"
"""Where the context remembers that nobody typed ``run``."""

NOT_A_TASK: Final = ("--help", "--version")
JOURNAL_COMMANDS: Final = (
    *(runs_command, show_command, resume_command, pending_command, approve_command, decline_command),
    *(settle_command, steer_command, stop_command, fork_command, export_command, replay_command),
    *(rm_command, gc_command, usage_command, completion_command),
)


class DefaultToRun(click.Group):
    """The group in which ``brida "task"`` is short for ``brida run "task"``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Puts ``run`` in front of what is no command, unless it looks like a command misspelled."""
        if not ctx.resilient_parsing and (not args or args[0] not in (*self.commands, *NOT_A_TASK)):
            self._check_words(ctx, args)
            args = ["run", *args]
            ctx.meta[IMPLIED] = True
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
    group.add_command(_chat_command(say, screen))
    group.add_command(config_command(say, screen))
    group.add_command(trust_command(say, screen))
    group.add_command(doctor_command(say, screen))
    group.add_command(budget_command(say, screen))
    for make in JOURNAL_COMMANDS:
        group.add_command(make(say, screen))
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
        _check_command_comes_first(values["task"], say)
        from brida.cli.task import TaskFlags, run_task

        flags = TaskFlags(**{name: values[name] for name in TaskFlags.__dataclass_fields__})
        return run_task(flags, Flags.of(**values), say, screen)

    return CommandWithSettings(
        "run",
        callback=run,
        help=say("Runs a task until it stops. - reads the task from the standard input."),
        options_metavar=say("[OPTIONS]"),
        params=[
            click.Argument(["task"], required=False, metavar=say("[TASK]")),
            *setting_options(say),
            _switch("--json", say("Print one JSON object on stdout.")),
            _switch("--events", say("Print every event as a line of JSON on stdout.")),
            _switch("--quiet", say("No trace and no closing line.")),
            _switch("--debug", say("Show where a bug in brida happened.")),
            _switch("--fail-on-declined", say("Exit with 3 where a call was declined.")),
        ],
    )


def _check_command_comes_first(task: str | None, say: Catalogue) -> None:
    """A command after a flag would be a task to pay for."""
    context = click.get_current_context()
    root = context.find_root().command
    if context.meta.get(IMPLIED) and isinstance(root, click.Group) and task in root.commands:
        raise click.UsageError(
            say(
                "the command comes first: brida {command} ...; a task of one word: brida run {command}",
                command=task,
            )
        )


def _chat_command(say: Catalogue, screen: Screen) -> click.Command:
    def chat(**values: Any) -> int:
        from brida.cli.chat import run_chat

        return run_chat(Flags.of(**values), say, screen, values["continue_"])

    return CommandWithSettings(
        "chat",
        callback=chat,
        help=say("Talks with the model at the terminal: each message goes on with the same conversation."),
        options_metavar=say("[OPTIONS]"),
        params=[
            click.Option(
                ["--continue", "continue_"],
                is_flag=False,
                flag_value="",
                metavar=say("[RUN]"),
                shell_complete=complete_ids,
                help=say("Goes on with a conversation of the journal, the last one where none is named."),
            ),
            *setting_options(say),
            _switch("--quiet", say("No trace and no closing line.")),
            _switch("--debug", say("Show where a bug in brida happened.")),
        ],
    )


def _switch(name: str, help: str) -> click.Option:
    return click.Option([name], is_flag=True, help=help)
